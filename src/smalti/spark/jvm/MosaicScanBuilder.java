package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownTopN;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** Collects what one scan is asked for. Limits, and most filters, only say what need not be read: Spark applies them again. */
public class MosaicScanBuilder implements SupportsPushDownFilters, SupportsPushDownRequiredColumns,
    SupportsPushDownLimit, SupportsPushDownTopN, SupportsPushDownAggregates {
  /** Tasks keep the first rows of each file in memory; more than this many are left to Spark. */
  private static final int MOST_SORTED = 10000;
  private final MosaicTable table;
  private final Snapshot given;
  private final StructType full;
  private StructType required;
  private Filter[] filters = new Filter[0];
  private Filter[] decided = new Filter[0];
  private int limit = -1;
  private List<Object> order = new ArrayList<Object>();
  private IndexScan answered;
  /** The aggregates that `answered` is about. */
  private String aggregated;

  MosaicScanBuilder(StructType schema, Snapshot given, MosaicTable table) {
    this.full = schema;
    this.required = schema;
    this.given = given;
    this.table = table;
  }

  /** Spark applies the filters again that this returns: all but those that partitions decide for whole files. */
  public Filter[] pushFilters(Filter[] offered) {
    filters = offered;
    Set<String> partitions = new HashSet<String>(Arrays.asList(files().partitions()));
    List<Filter> candidates = new ArrayList<Filter>();
    List<Object> written = new ArrayList<Object>();
    for (Filter filter : offered) {
      Object one = partitions.containsAll(Arrays.asList(filter.references())) ? Filters.write(filter) : null;
      if (one == null) continue;
      candidates.add(filter);
      written.add(one);
    }
    if (candidates.isEmpty()) return offered;
    Map<String, Object> details = new HashMap<String, Object>();
    details.put("schema", columns(partitions).json());
    details.put("filters", written);
    List<Object> answers = (List<Object>) files().ask("decide", details).get("decided");
    List<Filter> certain = new ArrayList<Filter>();
    for (int place = 0; place < answers.size(); place++)
      if (Boolean.TRUE.equals(answers.get(place))) certain.add(candidates.get(place));
    List<Filter> others = new ArrayList<Filter>(Arrays.asList(offered));
    others.removeAll(certain);
    decided = (Filter[]) certain.toArray(new Filter[certain.size()]);
    return (Filter[]) others.toArray(new Filter[others.size()]);
  }

  private Snapshot files() {
    return given == null ? table.files() : given;
  }

  /** Those that files and row groups are chosen by, which Spark shows. */
  public Filter[] pushedFilters() {
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
      List<Object> key = new ArrayList<Object>();
      key.add(field.name());
      key.add(Boolean.valueOf(each.direction() == SortDirection.ASCENDING));
      key.add(Boolean.valueOf(each.nullOrdering() == NullOrdering.NULLS_FIRST));
      asked.add(key);
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

  /** Whether texts have another order, or others are equal, than by their bytes, which is all that the index knows. */
  private static boolean isCollated(DataType type) {
    return type instanceof StringType && !type.equals(DataTypes.StringType);
  }

  public boolean isPartiallyPushed() {
    return true;
  }

  /** Whether the index of the files answers the aggregates. It is asked once: Spark first asks `supportCompletePushDown`. */
  public boolean pushAggregation(Aggregation aggregation) {
    String asked = Arrays.toString(aggregation.aggregateExpressions()) + Arrays.toString(aggregation.groupByExpressions());
    if (!asked.equals(aggregated)) answered = filters.length == decided.length ? answer(aggregation) : null;
    aggregated = asked;
    return answered != null;
  }

  public boolean supportCompletePushDown(Aggregation aggregation) {
    return pushAggregation(aggregation);
  }

  private IndexScan answer(Aggregation aggregation) {
    List<Object> functions = new ArrayList<Object>();
    List<Object> groups = new ArrayList<Object>();
    List<StructField> fields = new ArrayList<StructField>();
    for (Expression group : aggregation.groupByExpressions()) {
      StructField column = column(group);
      if (column == null || isCollated(column.dataType())) return null;
      groups.add(column.name());
      fields.add(column);
    }
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      List<String> asked = new ArrayList<String>();
      StructField column = null;
      if (function instanceof Count && !((Count) function).isDistinct()) {
        asked.add("count");
        column = column(((Count) function).column());
      } else if (function instanceof Min) {
        asked.add("min");
        column = column(((Min) function).column());
      } else if (function instanceof Max) {
        asked.add("max");
        column = column(((Max) function).column());
      } else if (function instanceof CountStar) {
        asked.add("count");
      }
      if (asked.isEmpty() || (column == null && !(function instanceof CountStar))) return null;
      boolean counts = "count".equals(asked.get(0));
      if (!counts && isCollated(column.dataType())) return null;
      if (column != null) asked.add(column.name());
      functions.add(asked);
      fields.add(new StructField(function.toString(), counts ? DataTypes.LongType : column.dataType(), true,
          org.apache.spark.sql.types.Metadata.empty()));
    }
    Set<String> named = new HashSet<String>(Arrays.asList(files().partitions()));
    for (Object group : groups) named.add((String) group);
    for (Object asked : functions) named.addAll((List<String>) asked);
    Map<String, Object> details = new HashMap<String, Object>();
    details.put("schema", columns(named).json());
    details.put("functions", functions);
    details.put("groups", groups);
    Filters.putDecided(details, full, decided);
    Planner.Answer answer = files().ask("aggregate", details);
    if (!answer.has("rows")) return null;
    StructType schema = new StructType((StructField[]) fields.toArray(new StructField[fields.size()]));
    return IndexScan.of(table, schema, (List<Object>) answer.get("rows"));
  }

  /** The columns of these names, in whichever case: a question about a table of 10,000 columns needs few of them. */
  private StructType columns(Set<String> names) {
    Set<String> folded = new HashSet<String>();
    for (String name : names) folded.add(name.toLowerCase(Locale.ROOT));
    List<StructField> found = new ArrayList<StructField>();
    for (StructField field : full.fields())
      if (folded.contains(field.name().toLowerCase(Locale.ROOT))) found.add(field);
    return new StructType((StructField[]) found.toArray(new StructField[found.size()]));
  }

  /** The column that an expression is; null if it is anything else. */
  private StructField column(Expression expression) {
    if (!(expression instanceof NamedReference)) return null;
    String[] names = ((NamedReference) expression).fieldNames();
    if (names.length != 1 || !full.getFieldIndex(names[0]).isDefined()) return null;
    return full.apply(names[0]);
  }

  public Scan build() {
    return answered != null ? (Scan) answered : new MosaicScan(table, given, full, required, filters, decided, limit, order);
  }
}
