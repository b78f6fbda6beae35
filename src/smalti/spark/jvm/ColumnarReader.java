package smalti.spark.jvm;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/**
 * The batches of one task: Arrow's stream from a Python worker, given to Spark in columns and in the memory it came in.
 *
 * Before the stream, and before each batch, comes a number: the length of the name of the file that the rows are from,
 * which follows it, or 0 for the same file as before; before a batch, the figures so far come next, because a LIMIT may
 * close the reader before the stream is over. END says that it is; then comes what Python has to tell about it, as JSON:
 * figures, or an error. See smalti/spark/worker.py.
 */
final class ColumnarReader implements PartitionReader<ColumnarBatch> {
  private static final int END = -1;
  private final StructType schema;
  private final BufferAllocator allocator;
  private final Worker worker;
  private ArrowStreamReader stream;
  private ColumnarBatch batch;
  private boolean over;
  private CustomTaskMetric[] figures = new CustomTaskMetric[0];

  ColumnarReader(String python, scala.collection.immutable.Map environment, byte[] scan, byte[] split, StructType schema) {
    this.schema = schema;
    this.allocator = ArrowUtils.rootAllocator().newChildAllocator("mosaic", 0L, Long.MAX_VALUE);
    Worker started = null;
    try {
      started = new Worker(python, environment);
      started.send("read", new byte[][] {Worker.READ, scan, split});
    } catch (IOException error) {
      if (started != null) started.close();
      allocator.close();
      Platform.throwException(error);
    }
    this.worker = started;
  }

  public boolean next() throws IOException {
    if (over) return false;
    int length = worker.readInt();
    if (length == END) return finish();
    if (length > 0) InputFileBlockHolder.set(new String(worker.readBytes(length), StandardCharsets.UTF_8), 0L, -1L);
    if (stream == null) {
      stream = new ArrowStreamReader(worker, allocator);
      stream.getVectorSchemaRoot();
      return next();
    }
    figures = TaskMetric.read(worker);
    if (!stream.loadNextBatch()) throw new IOException("the stream of a Python worker has ended early");
    // The vectors are filled anew for each batch, and their memory may be elsewhere.
    List<FieldVector> vectors = stream.getVectorSchemaRoot().getFieldVectors();
    ColumnVector[] columns = new ColumnVector[vectors.size()];
    for (int place = 0; place < columns.length; place++)
      columns[place] = ArrowVector.of((FieldVector) vectors.get(place), schema.fields()[place].dataType());
    batch = new ColumnarBatch(columns, stream.getVectorSchemaRoot().getRowCount());
    return true;
  }

  public ColumnarBatch get() {
    return batch;
  }

  public CustomTaskMetric[] currentMetricsValues() {
    return figures;
  }

  private boolean finish() throws IOException {
    over = true;
    figures = TaskMetric.of(worker.report());
    worker.release();
    return false;
  }

  /** A task that has not read to the end, because of a LIMIT or an error elsewhere, ends the worker. */
  public void close() throws IOException {
    worker.close();
    if (stream != null) stream.close(false);
    allocator.close();
    InputFileBlockHolder.unset();
  }
}
