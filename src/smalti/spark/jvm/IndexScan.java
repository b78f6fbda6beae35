package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal$;
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
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** Aggregates that the index of the files has answered, in one row or one for each group of partitions, without a task. */
public class IndexScan implements LocalScan, SupportsReportStatistics {
  private final Snapshot snapshot;
  private final StructType schema;
  private final InternalRow[] rows;

  private IndexScan(Snapshot snapshot, StructType schema, InternalRow[] rows) {
    this.snapshot = snapshot;
    this.schema = schema;
    this.rows = rows;
  }

  /** A scan with the answer to aggregates; null if the index does not answer them. */
  static IndexScan of(MosaicScan scan, Aggregation aggregation) {
    List<Object> functions = new ArrayList<Object>();
    List<Object> groups = new ArrayList<Object>();
    Set<String> named = scan.snapshot.names("partitions");
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
    if (!answer.has("rows")) return null;
    List<InternalRow> rows = new ArrayList<InternalRow>();
    for (Object row : (List<Object>) answer.get("rows")) rows.add(row(row, schema));
    return new IndexScan(scan.snapshot, schema, (InternalRow[]) rows.toArray(new InternalRow[0]));
  }

  /** Whether texts have another order, or others are equal, than by their bytes, which is all that the index knows. */
  private static boolean isCollated(DataType type) {
    return type instanceof StringType && !type.equals(DataTypes.StringType);
  }

  /** A list of JSON values as a row of Spark's. */
  static GenericInternalRow row(Object given, StructType schema) {
    Object[] values = ((List<Object>) given).toArray();
    for (int index = 0; index < values.length; index++) values[index] = value(values[index], schema.fields()[index].dataType());
    return new GenericInternalRow(values);
  }

  /** A value of JSON as Spark holds it in rows. Python tells those that JSON does not have as texts that Spark reads. */
  static Object value(Object value, DataType type) {
    return value == null ? null : new Cast(Literal$.MODULE$.apply(value.toString()), type, Option.apply("UTC")).eval(null);
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
    return snapshot.name() + " " + String.join(", ", schema.fieldNames()) + " from the index";
  }
}
