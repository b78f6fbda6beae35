package smalti.spark.jvm;

import java.math.BigDecimal;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThanOrEqual;
import scala.Product;
import scala.collection.immutable.Seq;

/** Filters of Spark's as JSON: [name, column, value] or [name, child, ...]. smalti/spark/filters.py parses it. */
final class Filters {
  /** Lists of more values take longer to look through than they save. */
  private static final int MANY = 1000;

  private Filters() {}

  /** The filters that can be written; the others are left out, and Spark applies all of them to the rows anyway. */
  static List<Object> write(Filter[] filters) {
    List<Object> written = new ArrayList<Object>();
    for (Filter filter : filters) {
      boolean isLong = filter instanceof In && ((In) filter).values().length > MANY;
      Object one = isLong ? between((In) filter) : write(filter);
      if (one != null) written.add(one);
    }
    return written;
  }

  /** What a long list of numbers or days, such as the keys of a join, says of row groups: the least and the most. */
  private static Object between(In filter) {
    Comparable least = null;
    Comparable most = null;
    for (Object value : filter.values()) {
      if (value == null) continue;
      if (!(value instanceof Number || value instanceof Date || value instanceof LocalDate)) return null;
      if (least == null || least.compareTo(value) > 0) least = (Comparable) value;
      if (most == null || most.compareTo(value) < 0) most = (Comparable) value;
    }
    if (least == null) return null;
    return write(new And(new GreaterThanOrEqual(filter.attribute(), least), new LessThanOrEqual(filter.attribute(), most)));
  }

  /** One filter, of whichever kind: its parts are its children, or its column and its value. Null if it cannot be written. */
  static Object write(Filter filter) {
    Product parts = (Product) filter;
    if (parts.productArity() == 0) return null; // always true, or always false
    List<Object> written = new ArrayList<Object>();
    written.add(filter.getClass().getSimpleName());
    for (int index = 0; index < parts.productArity(); index++) {
      Object part = parts.productElement(index);
      boolean isColumn = index == 0 && part instanceof String;
      Object one = part instanceof Filter ? write((Filter) part) : isColumn ? column((String) part) : value(part);
      if (one == null && part != null) return null;
      written.add(one);
    }
    return written;
  }

  /** The name of a column; null if it is a field within a column. */
  private static Object column(String attribute) {
    Seq parts = CatalystSqlParser$.MODULE$.parseMultipartIdentifier(attribute);
    return parts.size() == 1 ? parts.head() : null;
  }

  /** A value as JSON has it, or with the name of its kind where JSON has no such value; null if it cannot be written. */
  private static Object value(Object value) {
    if (value == null || value instanceof Boolean || value instanceof String) return value;
    if (value instanceof Byte || value instanceof Short || value instanceof Integer || value instanceof Long) return value;
    if (value instanceof Float || value instanceof Double) return kind("double", String.valueOf(((Number) value).doubleValue()));
    if (value instanceof BigDecimal) return kind("decimal", ((BigDecimal) value).toPlainString());
    if (value instanceof Date) return kind("date", ((Date) value).toLocalDate().toString());
    if (value instanceof LocalDate) return kind("date", value.toString());
    if (value instanceof Timestamp) return kind("timestamp", Long.valueOf(DateTimeUtils.fromJavaTimestamp((Timestamp) value)));
    if (value instanceof Instant) return kind("timestamp", Long.valueOf(DateTimeUtils.instantToMicros((Instant) value)));
    if (value instanceof LocalDateTime)
      return kind("timestamp", Long.valueOf(DateTimeUtils.instantToMicros(((LocalDateTime) value).toInstant(ZoneOffset.UTC))));
    if (value instanceof byte[]) return kind("binary", Base64.getEncoder().encodeToString((byte[]) value));
    return value instanceof Object[] ? values((Object[]) value) : null;
  }

  private static Object values(Object[] given) {
    if (given.length > MANY) return null;
    List<Object> written = new ArrayList<Object>();
    for (Object value : given) {
      Object one = value(value);
      if (one == null && value != null) return null;
      written.add(one);
    }
    return written;
  }

  private static Map<String, Object> kind(String name, Object value) {
    return Collections.singletonMap(name, value);
  }
}
