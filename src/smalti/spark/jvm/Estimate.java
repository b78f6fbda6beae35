package smalti.spark.jvm;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.DataType;

/** What Spark's optimizer is told of a scan. */
final class Estimate implements Statistics {
  private final long bytes;
  private final long rows;
  private final Map columns;

  /** `rows` are -1 if they are not known; `columns` has a Column for each reference to a column of which something is known. */
  Estimate(long bytes, long rows, Map columns) {
    this.bytes = bytes;
    this.rows = rows;
    this.columns = columns;
  }

  public OptionalLong sizeInBytes() {
    return OptionalLong.of(Math.max(1L, bytes));
  }

  public OptionalLong numRows() {
    return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
  }

  public Map columnStats() {
    return columns;
  }

  /** What the index tells about the values of a column, as smalti/spark/driver/facts.py has it in JSON. */
  static final class Column implements ColumnStatistics {
    private final Map<String, Object> figures;
    private final DataType type;

    Column(Map<String, Object> figures, DataType type) {
      this.figures = figures;
      this.type = type;
    }

    public OptionalLong nullCount() {
      return number("nulls");
    }

    public OptionalLong distinctCount() {
      return number("distinct");
    }

    public Optional min() {
      return value("min");
    }

    public Optional max() {
      return value("max");
    }

    private OptionalLong number(String name) {
      Object value = figures.get(name);
      return value instanceof Number ? OptionalLong.of(((Number) value).longValue()) : OptionalLong.empty();
    }

    private Optional value(String name) {
      Object value = figures.get(name);
      return value == null ? Optional.empty() : Optional.ofNullable(IndexScan.value(value, type));
    }
  }
}
