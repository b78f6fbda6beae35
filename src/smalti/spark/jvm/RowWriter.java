package smalti.spark.jvm;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

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

  public WriterCommitMessage commit() throws IOException {
    rows.finish();
    worker.report();
    byte[] files = worker.readBytes(worker.readInt());
    worker.release();
    return new Staged(files);
  }

  /** Ends the process, unless it has reported; what it has staged is removed when the job is aborted. */
  public void abort() {
    worker.close();
  }

  public void close() {
    rows.close();
    worker.close(); // does nothing to a process that was released
  }

  /** The files that one task has staged, pickled: only Python looks into it. */
  static final class Staged implements WriterCommitMessage {
    final byte[] files;

    Staged(byte[] files) {
      this.files = files;
    }
  }
}
