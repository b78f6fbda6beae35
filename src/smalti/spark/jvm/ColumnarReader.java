package smalti.spark.jvm;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import scala.reflect.ClassTag$;

/**
 * The batches of one task: Arrow's stream from a Python worker, given to Spark in columns and in the memory it came in.
 *
 * Before the stream, and before each batch, comes a number: the length of the name of the file that the rows are from,
 * which follows it, or 0 for the same file as before; before a batch, the figures so far come next, because a LIMIT may
 * close the reader before the stream is over. END says that it is; then come an error, or nothing and the figures. See
 * smalti/spark/worker.py.
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
    figures = SumMetric.read(worker);
    if (!stream.loadNextBatch()) throw new IOException("the stream of a Python worker has ended early");
    // The vectors are filled anew for each batch, and their memory may be elsewhere.
    List<FieldVector> vectors = stream.getVectorSchemaRoot().getFieldVectors();
    ColumnVector[] columns = new ColumnVector[vectors.size()];
    for (int index = 0; index < columns.length; index++)
      columns[index] = ArrowVector.of((FieldVector) vectors.get(index), schema.fields()[index].dataType());
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
    worker.report();
    figures = SumMetric.read(worker);
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

  /** The tasks of an answer of the planner's, which has the scan first. `bringScan` says whether they bring it along. */
  static InputPartition[] tasks(byte[][] parts, boolean bringScan) {
    InputPartition[] tasks = new InputPartition[parts.length - 1];
    Broadcast scan = bringScan && tasks.length > 0
        ? SparkContext.getOrCreate().broadcast(parts[0], ClassTag$.MODULE$.apply(byte[].class)) : null;
    for (int index = 1; index < parts.length; index++) tasks[index - 1] = new Task(parts[index], scan);
    return tasks;
  }

  /** What one task reads, pickled; and the scan, if the factory of readers does not have it. */
  static final class Task implements InputPartition {
    final byte[] split;
    final Broadcast scan;

    Task(byte[] split, Broadcast scan) {
      this.split = split;
      this.scan = scan;
    }
  }

  /** Makes the readers of a scan, in the tasks. What to read is sent pickled; only Python looks into it. */
  static final class Factory implements PartitionReaderFactory {
    private final String python = Planner.python().pythonExec();
    private final scala.collection.immutable.Map environment = Worker.environment();
    private final byte[] scan;
    private final StructType schema;

    Factory(byte[] scan, StructType schema) {
      this.scan = scan;
      this.schema = schema;
    }

    public boolean supportColumnarReads(InputPartition partition) {
      return true;
    }

    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      Task task = (Task) partition;
      byte[] common = task.scan == null ? scan : (byte[]) task.scan.value();
      return new ColumnarReader(python, environment, common, task.split, schema);
    }

    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      throw new UnsupportedOperationException("Mosaic files are read in columns");
    }
  }
}
