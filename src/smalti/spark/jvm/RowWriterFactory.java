package smalti.spark.jvm;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.charset.StandardCharsets;
import org.apache.arrow.vector.ipc.ReadChannel;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Makes the writers of a write, in the tasks. */
final class RowWriterFactory implements DataWriterFactory, StreamingDataWriterFactory {
  private final String python;
  private final scala.collection.immutable.Map environment;
  private final StructType schema;
  private final byte[] arrow;
  private final byte[] plan;

  /** What Python has answered to the question "begin": the Arrow schema of the batches, and what tasks need. */
  RowWriterFactory(StructType schema, byte[] arrow, byte[] plan) {
    this.python = Planner.python().pythonExec();
    this.environment = Worker.environment();
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
