package smalti.spark.jvm;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Writes the rows of one task: they go to a Python worker as Arrow batches, and it answers what it has staged. */
final class RowWriter implements DataWriter {
  private final Worker worker;
  private final RowsToArrow rows;

  private RowWriter(Worker worker, RowsToArrow rows) {
    this.worker = worker;
    this.rows = rows;
  }

  public void write(Object row) throws IOException {
    rows.add((InternalRow) row);
  }

  /**
   * The message names the files that were staged, pickled: only Python looks into it. Its class is one of Spark's, because
   * Spark reads it where it does not know a jar that a client of Spark Connect has added.
   */
  public WriterCommitMessage commit() throws IOException {
    rows.finish();
    worker.report();
    byte[] message = worker.readBytes(worker.readInt());
    worker.release();
    return new PythonWriterCommitMessage(message);
  }

  /** Ends the process, unless it has reported; what it has staged is removed when the job is aborted. */
  public void abort() {
    worker.close();
  }

  public void close() {
    rows.close();
    worker.close(); // does nothing to a process that was released
  }

  /** Makes the writers of a write, in the tasks. */
  static final class Factory implements DataWriterFactory, StreamingDataWriterFactory {
    private final String python = Planner.python().pythonExec();
    private final scala.collection.immutable.Map environment = Worker.environment();
    private final StructType schema;
    private final byte[] arrow;
    private final byte[] plan;

    /** What Python has answered to the question "begin": the Arrow schema of the batches, and what tasks need. */
    Factory(StructType schema, byte[] arrow, byte[] plan) {
      this.schema = schema;
      this.arrow = arrow;
      this.plan = plan;
    }

    public DataWriter createWriter(int partition, long task) {
      Worker worker = null;
      try {
        worker = new Worker(python, environment);
        worker.send("write", new byte[][] {Worker.WRITE, plan, String.valueOf(partition).getBytes(StandardCharsets.UTF_8)});
        ReadChannel bytes = new ReadChannel(Channels.newChannel(new ByteArrayInputStream(arrow)));
        return new RowWriter(worker, new RowsToArrow(worker, MessageSerializer.deserializeSchema(bytes), schema));
      } catch (IOException error) {
        if (worker != null) worker.close();
        Platform.throwException(error);
        return null;
      }
    }

    public DataWriter createWriter(int partition, long task, long epoch) {
      return createWriter(partition, task);
    }
  }
}
