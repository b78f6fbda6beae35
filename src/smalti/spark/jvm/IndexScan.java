package smalti.spark.jvm;

import java.math.BigDecimal;
import java.util.List;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** Aggregates that the index of the files has answered, in one row or one for each group of partitions, without a task. */
public class IndexScan implements LocalScan, SupportsReportStatistics {
  private final MosaicTable table;
  private final StructType schema;
  private final InternalRow[] rows;

  private IndexScan(MosaicTable table, StructType schema, InternalRow[] rows) {
    this.table = table;
    this.schema = schema;
    this.rows = rows;
  }

  /** A scan of these rows; null if a column has a type whose values do not come over. */
  static IndexScan of(MosaicTable table, StructType schema, List<Object> answered) {
    InternalRow[] rows = new InternalRow[answered.size()];
    for (int number = 0; number < rows.length; number++) {
      List<Object> row = (List<Object>) answered.get(number);
      Object[] values = new Object[row.size()];
      for (int place = 0; place < values.length; place++) {
        Object value = row.get(place);
        values[place] = value == null ? null : value(value, schema.fields()[place].dataType());
        if (value != null && values[place] == null) return null;
      }
      rows[number] = new GenericInternalRow(values);
    }
    return new IndexScan(table, schema, rows);
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
    return new Statistics() {
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(Math.max(1L, rows.length * (long) (schema.defaultSize() + MosaicScan.ROW_BYTES)));
      }

      public OptionalLong numRows() {
        return OptionalLong.of(rows.length);
      }
    };
  }

  public StructType readSchema() {
    return schema;
  }

  public String description() {
    return table.name() + " " + String.join(", ", schema.fieldNames()) + " from the index";
  }
}
