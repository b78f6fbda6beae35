package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One scan of the files of a snapshot. Spark first says step by step what it asks for, up to `build`. Limits, and most
 * filters, only say what need not be read: Spark applies them again. The scan is planned when Spark first asks what it
 * will read.
 *
 * Spark may run one scan several times: in each step of WITH RECURSIVE, for example. So filters that come at run time
 * belong to the batch that Spark asks for right after them, in the same thread, and never to the scan.
 */
public class MosaicScan implements SupportsPushDownCatalystFilters, SupportsPushDownRequiredColumns, SupportsPushDownLimit,
    SupportsPushDownTopN, SupportsPushDownAggregates, Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering,
    SupportsMetadata {
  static final int ROW_BYTES = 8;
  /** Tasks keep the first rows of each file in memory; more than this many are left to Spark. */
  private static final int MOST_SORTED = 10000;
  final Snapshot snapshot;
  private final StructType full;
  StructType required;
  private Predicate[] filters = new Predicate[0];
  private Predicate[] decided = new Predicate[0];
  private int limit = -1;
  private List<Object> order = new ArrayList<Object>();
  private IndexScan answered;
  /** The aggregates that `answered` is about. */
  private String aggregated;
  private final ThreadLocal<Predicate[]> runtime = new ThreadLocal<Predicate[]>();
  /** The plan without filters that come at run time. */
  private Planner.Answer whole;
  /** The plan that was made last, which is shown. */
  private volatile Planner.Answer latest;
  private boolean streaming;

  MosaicScan(Snapshot snapshot, StructType schema) {
    this.snapshot = snapshot;
    this.full = schema;
    this.required = schema;
  }

  // --- what is asked for -------------------------------------------------------------------------------------------

  /**
   * Returns the filters that Spark applies again: all but those that partitions decide for whole files, in the order of the
   * query, because a condition may be an error for rows that the one before it rejects.
   */
  public Seq pushFilters(Seq offered) {
    Set<String> partitions = snapshot.names("partitions");
    List<Object> kept = new ArrayList<Object>(CollectionConverters.asJava(offered));
    Map<Predicate, Object> candidates = new LinkedHashMap<Predicate, Object>();
    List<Predicate> translated = new ArrayList<Predicate>();
    List<Object> written = new ArrayList<Object>();
    for (Object condition : CollectionConverters.asJava(offered)) {
      Option filter = DataSourceV2Strategy$.MODULE$.translateFilterV2((Expression) condition);
      if (filter.isEmpty()) continue;
      Predicate predicate = (Predicate) filter.get();
      translated.add(predicate);
      Object one = partitions.containsAll(names(predicate)) ? Filters.write(predicate) : null;
      if (one != null && candidates.put(predicate, condition) == null) written.add(one);
    }
    filters = (Predicate[]) translated.toArray(new Predicate[0]);
    if (candidates.isEmpty()) return offered;
    Map<String, Object> details = Planner.details("schema", columns(partitions).json(), "filters", written);
    Iterator<Object> answers = ((List<Object>) snapshot.ask("decide", details).get("decided")).iterator();
    List<Predicate> certain = new ArrayList<Predicate>();
    for (Map.Entry<Predicate, Object> entry : candidates.entrySet())
      if (Boolean.TRUE.equals(answers.next()) && kept.remove(entry.getValue())) certain.add((Predicate) entry.getKey());
    decided = (Predicate[]) certain.toArray(new Predicate[0]);
    return CollectionConverters.asScala(kept).toList();
  }

  /** The filters by which files and row groups are chosen; Spark shows them in its plan. */
  public Predicate[] pushedFilters() {
    return filters;
  }

  public void pruneColumns(StructType columns) {
    required = columns;
  }

  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  /** Tasks then return the first rows of each file only. */
  public boolean pushTopN(SortOrder[] orders, int rows) {
    if (rows > MOST_SORTED) return false;
    List<Object> asked = new ArrayList<Object>();
    for (SortOrder each : orders) {
      StructField field = column(each.expression());
      if (field == null || !sortable(field.dataType())) return false;
      asked.add(Arrays.asList(field.name(), each.direction() == SortDirection.ASCENDING,
          each.nullOrdering() == NullOrdering.NULLS_FIRST));
    }
    order = asked;
    limit = rows;
    return true;
  }

  /** Whether Arrow sorts values of a type as Spark does; they differ on NaN, and on texts with a collation. */
  private static boolean sortable(DataType type) {
    return type instanceof IntegralType || type instanceof DecimalType || type instanceof DateType
        || type instanceof TimestampType || type instanceof TimestampNTZType || type instanceof BooleanType
        || type.equals(DataTypes.StringType);
  }

  public boolean isPartiallyPushed() {
    return true;
  }

  /** Whether the index of the files answers the aggregates. It is asked once: Spark first asks `supportCompletePushDown`. */
  public boolean pushAggregation(Aggregation aggregation) {
    String asked = Arrays.toString(aggregation.aggregateExpressions()) + Arrays.toString(aggregation.groupByExpressions());
    if (!asked.equals(aggregated)) answered = filters.length == decided.length ? IndexScan.of(this, aggregation) : null;
    aggregated = asked;
    return answered != null;
  }

  public boolean supportCompletePushDown(Aggregation aggregation) {
    return pushAggregation(aggregation);
  }

  public Scan build() {
    return answered == null ? (Scan) this : answered;
  }

  /** The columns of these names, in whichever case: a question about a table of 10,000 columns needs few of them. */
  StructType columns(Set<String> names) {
    Set<String> folded = new HashSet<String>();
    for (String name : names) folded.add(name.toLowerCase(Locale.ROOT));
    List<StructField> found = new ArrayList<StructField>();
    for (StructField field : full.fields())
      if (folded.contains(field.name().toLowerCase(Locale.ROOT))) found.add(field);
    return new StructType((StructField[]) found.toArray(new StructField[0]));
  }

  /** The column that an expression is; null if it is anything else. */
  StructField column(org.apache.spark.sql.connector.expressions.Expression expression) {
    if (!(expression instanceof NamedReference)) return null;
    String[] names = ((NamedReference) expression).fieldNames();
    return names.length == 1 && full.getFieldIndex(names[0]).isDefined() ? full.apply(names[0]) : null;
  }

  /** The columns, or parts of columns, that a predicate is about. */
  private static List<String> names(Predicate predicate) {
    List<String> names = new ArrayList<String>();
    for (NamedReference reference : predicate.references()) names.add(String.join(".", reference.fieldNames()));
    return names;
  }

  static NamedReference reference(String name) {
    return Expressions.column("`" + name.replace("`", "``") + "`");
  }

  // --- what is read ------------------------------------------------------------------------------------------------

  /** Ask about the files that are left by the filters which partitions decide. */
  Planner.Answer ask(String question, Map<String, Object> details) {
    Set<String> names = new HashSet<String>();
    for (Predicate filter : decided) names.addAll(names(filter));
    details.put("decided", Filters.write(decided));
    details.put("partitions", columns(names).json());
    return snapshot.ask(question, details);
  }

  /** What is read, and by how many tasks, without filters that come at run time. */
  synchronized Planner.Answer plan() {
    if (whole == null) whole = plan(new Predicate[0]);
    return whole;
  }

  /** What is left to read with filters that have come at run time. */
  synchronized Planner.Answer plan(Predicate[] more) {
    Predicate[] all = (Predicate[]) Arrays.copyOf(filters, filters.length + more.length);
    System.arraycopy(more, 0, all, filters.length, more.length);
    SQLConf conf = SQLConf.get();
    latest = ask("plan", Planner.details("schema", required.json(), "filters", Filters.write(all), "order", order,
        "limit", limit < 0 ? null : (Object) limit, "defaults", Filters.defaults(required),
        "hidden", hidden(), "statistics", conf.cboEnabled() || conf.planStatsEnabled()));
    Renamed.warn(snapshot.name(), full, latest);
    return latest;
  }

  public StructType readSchema() {
    return required;
  }

  /** The name of the hidden column, which the table does not have, if it is asked for. */
  String hidden() {
    for (String name : required.fieldNames()) if (!full.getFieldIndex(name).isDefined()) return name;
    return null;
  }

  public Batch toBatch() {
    Predicate[] more = (Predicate[]) runtime.get();
    runtime.remove();
    return new MosaicBatch(this, more == null ? new Predicate[0] : more);
  }

  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    streaming = true;
    return new MosaicStream(this);
  }

  public Statistics estimateStatistics() {
    if (streaming) return new Estimate(SQLConf.get().defaultSizeInBytes(), -1L, Collections.emptyMap());
    Planner.Answer facts = plan();
    // The part of a file that some columns take, as Spark estimates it for its own formats.
    double share = (required.defaultSize() + ROW_BYTES) / (double) (full.defaultSize() + ROW_BYTES);
    // What the index tells about the values of columns, if the optimizer reckons with them.
    Map<NamedReference, Object> columns = new HashMap<NamedReference, Object>();
    if (facts.has("columns"))
      for (Map.Entry<String, Object> entry : ((Map<String, Object>) facts.get("columns")).entrySet())
        columns.put(reference((String) entry.getKey()),
            new Estimate.Column((Map<String, Object>) entry.getValue(), required.apply((String) entry.getKey()).dataType()));
    return new Estimate((long) (facts.number("bytes") * share), facts.has("rows") ? facts.number("rows") : -1L, columns);
  }

  public CustomMetric[] supportedCustomMetrics() {
    return SumMetric.all();
  }

  /** The row groups that no task was given. */
  public CustomTaskMetric[] reportDriverMetrics() {
    if (!knowsGroups()) return new CustomTaskMetric[0];
    return new CustomTaskMetric[] {new SumMetric("skipped", "", snapshot.facts().number("groups") - latest.number("groups"))};
  }

  private boolean knowsGroups() {
    return latest != null && latest.has("groups") && snapshot.facts().has("groups");
  }

  /** Columns whose values, once a join knows them, rule out files. */
  public NamedReference[] filterAttributes() {
    Set<String> filterable = snapshot.names("filterable");
    List<NamedReference> found = new ArrayList<NamedReference>();
    for (String name : required.fieldNames())
      if (filterable.contains(name)) found.add(reference(name));
    return (NamedReference[]) found.toArray(new NamedReference[0]);
  }

  public void filter(Predicate[] more) {
    runtime.set(more);
  }

  public String description() {
    StringBuilder text = new StringBuilder(MosaicSource.FORMAT);
    for (Map.Entry<String, String> entry : shown().entrySet())
      text.append(text.length() == MosaicSource.FORMAT.length() ? " " : ", ").append(entry.getKey() + ": " + entry.getValue());
    return text.toString();
  }

  public scala.collection.immutable.Map getMetaData() {
    return Options.toScala(shown());
  }

  /** What explain() shows. */
  private Map<String, String> shown() {
    Map<String, String> shown = new TreeMap<String, String>();
    shown.put("Location", Options.shown((String) snapshot.given.get("path")));
    shown.put("PushedFilters", Arrays.toString(filters));
    shown.put("ReadSchema", required.catalogString());
    if (limit >= 0) shown.put("PushedLimit", String.valueOf(limit));
    if (!order.isEmpty()) shown.put("PushedOrder", order.toString());
    if (latest != null) shown.put("Files", latest.text("files") + " of " + snapshot.facts().text("files"));
    if (knowsGroups()) shown.put("RowGroups", latest.text("groups") + " of " + snapshot.facts().text("groups"));
    return shown;
  }

  public boolean equals(Object other) {
    if (!(other instanceof MosaicScan)) return false;
    MosaicScan scan = (MosaicScan) other;
    return required.equals(scan.required) && limit == scan.limit && order.equals(scan.order)
        && Arrays.equals(filters, scan.filters) && Arrays.equals(decided, scan.decided) && snapshot.equals(scan.snapshot);
  }

  public int hashCode() {
    return Objects.hash(required, limit, Arrays.hashCode(filters));
  }
}
