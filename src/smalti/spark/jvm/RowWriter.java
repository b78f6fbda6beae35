package smalti.spark.jvm;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/** Writes the rows of one task: they go to a Python worker as Arrow batches, and it answers what it has staged. */
final class RowWriter implements DataWriter {
  private final Worker worker;
  private final RowsToArrow rows;

  RowWriter(Worker worker, RowsToArrow rows) {
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
}
