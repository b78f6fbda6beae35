package smalti.spark.jvm;

import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.DataType;

/** What the index tells about the values of a column, as smalti/spark/driver/facts.py has it in JSON. */
final class ColumnFigures implements ColumnStatistics {
  private final Map<String, Object> figures;
  private final DataType type;

  ColumnFigures(Map<String, Object> figures, DataType type) {
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
