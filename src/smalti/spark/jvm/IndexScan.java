package smalti.spark.jvm;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** Aggregates that the index of the files has answered, in one row or one for each group of partitions, without a task. */
public class IndexScan implements LocalScan, SupportsReportStatistics {
  private final Snapshot files;
  private final StructType schema;
  private final InternalRow[] rows;

  private IndexScan(Snapshot files, StructType schema, InternalRow[] rows) {
    this.files = files;
    this.schema = schema;
    this.rows = rows;
  }

  /** A scan with the answer to aggregates; null if the index does not answer them. */
  static IndexScan of(MosaicScan scan, Aggregation aggregation) {
    List<Object> functions = new ArrayList<Object>();
    List<Object> groups = new ArrayList<Object>();
    Set<String> named = scan.files.names("partitions");
    StructType schema = new StructType();
    for (Expression group : aggregation.groupByExpressions()) {
      StructField column = scan.column(group);
      if (column == null || isCollated(column.dataType())) return null;
      groups.add(column.name());
      named.add(column.name());
      schema = schema.add(column);
    }
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      boolean isMin = function instanceof Min;
      boolean counts = function instanceof CountStar || function instanceof Count && !((Count) function).isDistinct();
      if (!counts && !isMin && !(function instanceof Max)) return null;
      List<String> asked = new ArrayList<String>();
      asked.add(counts ? "count" : isMin ? "min" : "max");
      DataType type = DataTypes.LongType;
      if (!(function instanceof CountStar)) {
        StructField column = scan.column(function.children()[0]);
        if (column == null || !counts && isCollated(column.dataType())) return null;
        if (!counts) type = column.dataType();
        asked.add(column.name());
        named.add(column.name());
      }
      functions.add(asked);
      schema = schema.add(function.toString(), type);
    }
    Planner.Answer answer = scan.ask("aggregate",
        Planner.details("schema", scan.columns(named).json(), "functions", functions, "groups", groups));
    return answer.has("rows") ? of(scan.files, schema, (List<Object>) answer.get("rows")) : null;
  }

  /** Whether texts have another order, or others are equal, than by their bytes, which is all that the index knows. */
  private static boolean isCollated(DataType type) {
    return type instanceof StringType && !type.equals(DataTypes.StringType);
  }

  /** A scan of these rows; null if a column has a type whose values do not come over. */
  private static IndexScan of(Snapshot files, StructType schema, List<Object> answered) {
    InternalRow[] rows = new InternalRow[answered.size()];
    for (int number = 0; number < rows.length; number++) {
      Object[] given = ((List<Object>) answered.get(number)).toArray();
      Object[] values = row(given, schema);
      for (int place = 0; place < values.length; place++) if (values[place] == null && given[place] != null) return null;
      rows[number] = new GenericInternalRow(values);
    }
    return new IndexScan(files, schema, rows);
  }

  /** Values of JSON as Spark holds them in rows; null for one that does not come over. */
  static Object[] row(Object[] given, StructType schema) {
    Object[] values = new Object[given.length];
    for (int place = 0; place < values.length; place++) values[place] = value(given[place], schema.fields()[place].dataType());
    return values;
  }

  /** A value of JSON as Spark holds it in rows. */
  static Object value(Object value, DataType type) {
    if (value instanceof Number) {
      long number = ((Number) value).longValue();
      if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) return Long.valueOf(number);
      if (type instanceof IntegerType || type instanceof DateType) return Integer.valueOf((int) number);
      if (type instanceof ShortType) return Short.valueOf((short) number);
      if (type instanceof ByteType) return Byte.valueOf((byte) number);
      if (type instanceof DoubleType) return Double.valueOf(((Number) value).doubleValue());
    }
    if (value instanceof Boolean && type instanceof BooleanType) return value;
    if (value instanceof String && type instanceof StringType) return UTF8String.fromString((String) value);
    if (value instanceof String && type instanceof DoubleType) return Double.valueOf((String) value); // NaN, Infinity
    if (value instanceof String && type instanceof DecimalType)
      return Decimal.apply(new BigDecimal((String) value), ((DecimalType) type).precision(), ((DecimalType) type).scale());
    return null;
  }

  public InternalRow[] rows() {
    return rows;
  }

  public Statistics estimateStatistics() {
    long size = schema.defaultSize() + MosaicScan.ROW_BYTES;
    return new Estimate(rows.length * size, rows.length, Collections.emptyMap());
  }

  public StructType readSchema() {
    return schema;
  }

  public String description() {
    return files.name() + " " + String.join(", ", schema.fieldNames()) + " from the index";
  }
}
