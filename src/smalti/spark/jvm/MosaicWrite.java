package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/**
 * One write: Python checks it, tasks send their rows to Python workers, and Python commits what they have staged.
 *
 * The rows of each task are sorted by the partition columns, as for Spark's own formats, so that a task has one open file.
 */
final class MosaicWrite implements RequiresDistributionAndOrdering, BatchWrite, StreamingWrite {
  private final StructType schema;
  private final Map<String, Object> details;
  private final String[] partitions;
  private Planner.Answer begun;

  /**
   * `details` are those of the question "begin": the options, the mode, and perhaps a partition that is replaced or the
   * number of a stream's batch. `partitions` are the partition columns of a table of a catalog.
   */
  MosaicWrite(StructType schema, Map<String, Object> details, String[] partitions) {
    this.schema = schema;
    this.details = details;
    this.partitions = partitions;
  }

  /** Ask Python to check the write. The answer is false if the mode is for new tables and there is something already. */
  boolean begin(boolean streams) {
    details.put("schema", schema.json());
    details.put("streams", Boolean.valueOf(streams));
    begun = Planner.ask("begin", details);
    return !begun.has("exists");
  }

  public Distribution requiredDistribution() {
    return Distributions.unspecified();
  }

  public SortOrder[] requiredOrdering() {
    String[] order = begun == null ? partitions : begun.names("order");
    SortOrder[] orders = new SortOrder[order.length];
    for (int place = 0; place < order.length; place++)
      orders[place] = Expressions.sort(MosaicScan.reference(order[place]), SortDirection.ASCENDING);
    return orders;
  }

  public BatchWrite toBatch() {
    return this;
  }

  public StreamingWrite toStreaming() {
    begin(true);
    return this;
  }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    if (begun == null) begin(false);
    return factory();
  }

  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return factory();
  }

  private RowWriterFactory factory() {
    return new RowWriterFactory(schema, begun.parts[0], begun.parts[1]);
  }

  /** As both interfaces have it: of the attempts of a task, one commits. */
  public boolean useCommitCoordinator() {
    return true;
  }

  /** A batch of a stream to a path is a write of its own, and has its number in the details. */
  public void commit(WriterCommitMessage[] messages) {
    commit(details.get("batch"), messages);
  }

  public void commit(long batch, WriterCommitMessage[] messages) {
    commit(Long.valueOf(batch), messages);
  }

  private void commit(Object batch, WriterCommitMessage[] messages) {
    Map<String, Object> numbered = new HashMap<String, Object>();
    numbered.put("batch", batch);
    Planner.ask("commit", numbered, parts(messages));
  }

  public void abort(WriterCommitMessage[] messages) {
    if (begun != null) Planner.ask("abort", new HashMap<String, Object>(), parts(messages));
  }

  public void abort(long batch, WriterCommitMessage[] messages) {
    abort(messages);
  }

  /** The write that Python has begun, and what its tasks have staged; tasks that have failed have no message. */
  private byte[][] parts(WriterCommitMessage[] messages) {
    List<byte[]> parts = new ArrayList<byte[]>();
    parts.add(begun.parts[2]);
    for (WriterCommitMessage message : messages)
      if (message != null) parts.add(((PythonWriterCommitMessage) message).pickledMessage());
    return (byte[][]) parts.toArray(new byte[parts.size()][]);
  }

  public String toString() {
    return MosaicSource.FORMAT;
  }
}
