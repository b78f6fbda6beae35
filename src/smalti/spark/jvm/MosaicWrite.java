package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * One write: appended, in place of everything, of the partitions that get rows, or of the partitions that are named, as
 * Spark says before it calls `build`. Python checks it, tasks send their rows to Python workers, and Python commits what
 * they have staged.
 *
 * The rows of each task are sorted by the partition columns, as for Spark's own formats, so that a task has one open file.
 */
final class MosaicWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite, RequiresDistributionAndOrdering,
    BatchWrite, StreamingWrite {
  private final StructType schema;
  private final Map<String, String> options;
  private final List<String> partitions;
  private final Long batch;
  private String mode;
  private Map<String, Object> replaced = Collections.emptyMap();
  private Planner.Answer begun;

  /**
   * `partitions` are the partition columns of a table of a catalog, `batch` is the number of a batch of a stream to a path,
   * or null.
   */
  MosaicWrite(StructType schema, Map<String, String> options, String[] partitions, String mode, Long batch) {
    this.schema = schema;
    this.options = new LinkedHashMap<String, String>(options);
    this.partitions = Arrays.asList(partitions);
    this.mode = mode;
    this.batch = batch;
  }

  // --- what is replaced --------------------------------------------------------------------------------------------

  public WriteBuilder truncate() {
    mode = "overwrite";
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    if (!partitions.isEmpty()) options.put("partitionOverwriteMode", "dynamic"); // without partitions the table is one
    return truncate();
  }

  public boolean canOverwrite(Predicate[] conditions) {
    return partition(conditions) != null;
  }

  public WriteBuilder overwrite(Predicate[] conditions) {
    replaced = partition(conditions);
    options.put("partitionOverwriteMode", "static");
    return truncate();
  }

  /**
   * The values that conditions ask of partition columns; null if they ask for anything else than that these equal
   * values. Whole files are replaced, so a condition on any other column, as INSERT INTO .. REPLACE WHERE may have it,
   * is refused: it would leave the rows that it is about.
   */
  private Map<String, Object> partition(Predicate[] conditions) {
    Map<String, Object> values = new LinkedHashMap<String, Object>();
    for (Predicate condition : conditions) {
      if (condition instanceof AlwaysTrue) continue;
      Expression[] sides = condition.children();
      if (sides.length == 0 || !(sides[0] instanceof NamedReference)) return null;
      String[] names = ((NamedReference) sides[0]).fieldNames();
      if (names.length != 1 || !partitions.contains(names[0]) || values.containsKey(names[0])) return null;
      boolean isNull = "IS_NULL".equals(condition.name()); // which Spark makes of "<=> NULL"
      boolean isEqual = "<=>".equals(condition.name()) || "=".equals(condition.name());
      if (!isNull && !(isEqual && sides[1] instanceof Literal)) return null;
      Object value = isNull ? null : ((Literal) sides[1]).value();
      if (value == null && "=".equals(condition.name())) return null; // equals nothing, not even null
      values.put(names[0], value == null ? null : MosaicTable.text(value, ((Literal) sides[1]).dataType()));
    }
    return values;
  }

  public Write build() {
    return this;
  }

  // --- how it is carried out ---------------------------------------------------------------------------------------

  /** Ask Python to check the write. The answer is false if the mode is for new tables and there is something already. */
  boolean begin(boolean streams) {
    begun = Planner.ask("begin", Planner.details("options", options, "session", Options.session(), "schema", schema.json(),
        "mode", mode, "partition", replaced, "streams", streams));
    return !begun.has("exists");
  }

  public Distribution requiredDistribution() {
    return Distributions.unspecified();
  }

  public SortOrder[] requiredOrdering() {
    List<String> order = begun == null ? partitions : Arrays.asList(begun.names("order"));
    SortOrder[] orders = new SortOrder[order.size()];
    for (int index = 0; index < orders.length; index++)
      orders[index] = Expressions.sort(MosaicScan.reference((String) order.get(index)), SortDirection.ASCENDING);
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
    return new RowWriter.Factory(schema, begun.parts[0], begun.parts[1]);
  }

  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
    return new RowWriter.Factory(schema, begun.parts[0], begun.parts[1]);
  }

  /** As both interfaces have it: of the attempts of a task, one commits. */
  public boolean useCommitCoordinator() {
    return true;
  }

  public void commit(WriterCommitMessage[] messages) {
    commit(batch, messages);
  }

  public void commit(long number, WriterCommitMessage[] messages) {
    commit(Long.valueOf(number), messages);
  }

  private void commit(Long number, WriterCommitMessage[] messages) {
    Planner.ask("commit", Planner.details("batch", number), parts(messages));
    Caches.refresh(new CaseInsensitiveStringMap(options).get("path"));
  }

  public void abort(WriterCommitMessage[] messages) {
    if (begun != null) Planner.ask("abort", Planner.details(), parts(messages));
  }

  public void abort(long number, WriterCommitMessage[] messages) {
    abort(messages);
  }

  /** The write that Python has begun, and what its tasks have staged; tasks that have failed have no message. */
  private byte[][] parts(WriterCommitMessage[] messages) {
    List<byte[]> parts = new ArrayList<byte[]>();
    parts.add(begun.parts[2]);
    for (WriterCommitMessage message : messages)
      if (message != null) parts.add(((PythonWriterCommitMessage) message).pickledMessage());
    return (byte[][]) parts.toArray(new byte[0][]);
  }

  public String toString() {
    return MosaicSource.FORMAT;
  }

  /** INSERT INTO a temporary view of a path: for a table that has V1_BATCH_WRITE only, Spark wants a V1Write. */
  static final class Insert implements SupportsTruncate, V1Write, InsertableRelation {
    private final Map<String, String> options;
    private String mode = "append";

    Insert(Map<String, String> options) {
      this.options = options;
    }

    public WriteBuilder truncate() {
      mode = "overwrite";
      return this;
    }

    public Write build() {
      return this;
    }

    public InsertableRelation toInsertableRelation() {
      return this;
    }

    public void insert(Dataset rows, boolean ignored) {
      MosaicSource.save(rows, options, mode, null);
    }
  }
}
