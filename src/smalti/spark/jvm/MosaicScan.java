package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeFiltering;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One scan of the files of a snapshot. It is planned when Spark first asks what it will read.
 *
 * Spark may run one scan several times: in each step of WITH RECURSIVE, for example. So filters that come at run time
 * belong to the batch that Spark asks for right after them, in the same thread, and never to the scan.
 */
public class MosaicScan implements Scan, SupportsReportStatistics, SupportsRuntimeFiltering, SupportsMetadata {
  static final int ROW_BYTES = 8;
  private final MosaicTable table;
  private final StructType full;
  final StructType required;
  private final Filter[] filters;
  private final Filter[] decided;
  private final int limit;
  private final List<Object> order;
  private final ThreadLocal<Filter[]> runtime = new ThreadLocal<Filter[]>();
  private Snapshot snapshot;
  private Planner.Answer whole;
  /** The plan that was made last, which is shown. */
  private volatile Planner.Answer latest;
  private boolean streaming;

  MosaicScan(MosaicTable table, Snapshot given, StructType full, StructType required, Filter[] filters, Filter[] decided,
      int limit, List<Object> order) {
    this.table = table;
    this.snapshot = given;
    this.full = full;
    this.required = required;
    this.filters = filters;
    this.decided = decided;
    this.limit = limit;
    this.order = order;
  }

  private Snapshot files() {
    if (snapshot == null) snapshot = table.files();
    return snapshot;
  }

  /** What is read, and by how many tasks, without filters that come at run time. */
  synchronized Planner.Answer plan() {
    if (whole == null) whole = plan(new Filter[0]);
    return whole;
  }

  /** What is left to read with filters that have come at run time. */
  synchronized Planner.Answer plan(Filter[] more) {
    Filter[] all = (Filter[]) Arrays.copyOf(filters, filters.length + more.length);
    System.arraycopy(more, 0, all, filters.length, more.length);
    Map<String, Object> details = new HashMap<String, Object>();
    details.put("schema", required.json());
    details.put("filters", Filters.write(all));
    Filters.putDecided(details, full, decided);
    details.put("statistics", Boolean.valueOf(SQLConf.get().cboEnabled() || SQLConf.get().planStatsEnabled()));
    if (limit >= 0) details.put("limit", Integer.valueOf(limit));
    details.put("order", order);
    latest = files().ask("plan", details);
    return latest;
  }

  public StructType readSchema() {
    return required;
  }

  public Batch toBatch() {
    Filter[] more = (Filter[]) runtime.get();
    runtime.remove();
    return new MosaicBatch(this, more == null ? new Filter[0] : more);
  }

  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    streaming = true;
    return new MosaicStream(Options.withSession(table.options().asCaseSensitiveMap()), required);
  }

  public Statistics estimateStatistics() {
    if (streaming) return statistics(SQLConf.get().defaultSizeInBytes(), -1L, new HashMap<NamedReference, ColumnStatistics>());
    Planner.Answer facts = plan();
    // The part of a file that some columns take, as Spark estimates it for its own formats.
    double share = (required.defaultSize() + ROW_BYTES) / (double) (full.defaultSize() + ROW_BYTES);
    return statistics((long) (facts.number("bytes") * share), facts.has("rows") ? facts.number("rows") : -1L, columns(facts, required));
  }

  /** What the index tells about the values of columns, if the optimizer reckons with them. */
  private static Map<NamedReference, ColumnStatistics> columns(Planner.Answer facts, StructType schema) {
    Map<NamedReference, ColumnStatistics> found = new HashMap<NamedReference, ColumnStatistics>();
    if (!facts.has("columns")) return found;
    for (Map.Entry<String, Object> entry : ((Map<String, Object>) facts.get("columns")).entrySet()) {
      StructField field = schema.apply((String) entry.getKey());
      found.put(reference(field.name()), new ColumnFigures((Map<String, Object>) entry.getValue(), field.dataType()));
    }
    return found;
  }

  static NamedReference reference(String name) {
    return Expressions.column("`" + name.replace("`", "``") + "`");
  }

  private static Statistics statistics(final long bytes, final long rows, final Map columns) {
    return new Statistics() {
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(Math.max(1L, bytes));
      }

      public OptionalLong numRows() {
        return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
      }

      public Map columnStats() {
        return columns;
      }
    };
  }

  public CustomMetric[] supportedCustomMetrics() {
    return TaskMetric.all();
  }

  /** The row groups that no task was given. */
  public CustomTaskMetric[] reportDriverMetrics() {
    Planner.Answer plan = latest;
    if (plan == null || !plan.has("groups") || !files().facts.has("groups")) return new CustomTaskMetric[0];
    return new CustomTaskMetric[] {new TaskMetric("skipped", files().facts.number("groups") - plan.number("groups"))};
  }

  /** Columns whose values, once a join knows them, rule out files. */
  public NamedReference[] filterAttributes() {
    Set<String> filterable = files().filterable();
    List<NamedReference> found = new ArrayList<NamedReference>();
    for (String name : required.fieldNames())
      if (filterable.contains(name)) found.add(reference(name));
    return (NamedReference[]) found.toArray(new NamedReference[found.size()]);
  }

  public void filter(Filter[] more) {
    runtime.set(more);
  }

  public String description() {
    StringBuilder text = new StringBuilder(MosaicSource.FORMAT);
    for (Map.Entry<String, String> entry : shown().entrySet())
      text.append(text.length() == MosaicSource.FORMAT.length() ? " " : ", ").append(entry.getKey() + ": " + entry.getValue());
    return text.toString();
  }

  public scala.collection.immutable.Map getMetaData() {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(shown()));
  }

  /** What explain() shows. */
  private Map<String, String> shown() {
    Planner.Answer plan = latest;
    Map<String, String> shown = new TreeMap<String, String>();
    shown.put("Location", Options.shown((String) table.options().get("path")));
    shown.put("PushedFilters", Arrays.toString(filters));
    shown.put("ReadSchema", required.catalogString());
    if (limit >= 0) shown.put("PushedLimit", String.valueOf(limit));
    if (!order.isEmpty()) shown.put("PushedOrder", order.toString());
    if (plan != null) {
      shown.put("Files", plan.text("files") + " of " + files().facts.text("files"));
      if (plan.has("groups") && files().facts.has("groups"))
        shown.put("RowGroups", plan.text("groups") + " of " + files().facts.text("groups"));
    }
    return shown;
  }

  public boolean equals(Object other) {
    if (!(other instanceof MosaicScan)) return false;
    MosaicScan scan = (MosaicScan) other;
    return required.equals(scan.required) && limit == scan.limit && order.equals(scan.order)
        && Arrays.equals(filters, scan.filters) && Arrays.equals(decided, scan.decided)
        && (table == scan.table && snapshot == scan.snapshot || files().equals(scan.files()));
  }

  public int hashCode() {
    return Objects.hash(new Object[] {required, Integer.valueOf(limit), Integer.valueOf(Arrays.hashCode(filters))});
  }
}
