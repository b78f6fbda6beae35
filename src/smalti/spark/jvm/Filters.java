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
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringContains;
import org.apache.spark.sql.sources.StringEndsWith;
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.StructType;
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

  /** Add filters that Spark does not apply again to a question, and the columns that they are about. */
  static void putDecided(Map<String, Object> details, StructType schema, Filter[] decided) {
    List<Object> written = new ArrayList<Object>();
    StructType columns = new StructType();
    for (Filter filter : decided) {
      written.add(write(filter));
      for (String name : filter.references())
        if (!columns.getFieldIndex(name).isDefined()) columns = columns.add(schema.apply(name));
    }
    details.put("decided", written);
    details.put("partitions", columns.json());
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
    return both("And", new GreaterThanOrEqual(filter.attribute(), least), new LessThanOrEqual(filter.attribute(), most));
  }

  static Object write(Filter filter) {
    if (filter instanceof And) return both("And", ((And) filter).left(), ((And) filter).right());
    if (filter instanceof Or) return both("Or", ((Or) filter).left(), ((Or) filter).right());
    if (filter instanceof Not) {
      Object child = write(((Not) filter).child());
      return child == null ? null : list("Not", child, null, 2);
    }
    String name = filter.getClass().getSimpleName();
    if (filter instanceof IsNull) return column(name, ((IsNull) filter).attribute());
    if (filter instanceof IsNotNull) return column(name, ((IsNotNull) filter).attribute());
    if (filter instanceof EqualTo) return compare(name, ((EqualTo) filter).attribute(), ((EqualTo) filter).value());
    if (filter instanceof EqualNullSafe)
      return compare(name, ((EqualNullSafe) filter).attribute(), ((EqualNullSafe) filter).value());
    if (filter instanceof LessThan) return compare(name, ((LessThan) filter).attribute(), ((LessThan) filter).value());
    if (filter instanceof LessThanOrEqual)
      return compare(name, ((LessThanOrEqual) filter).attribute(), ((LessThanOrEqual) filter).value());
    if (filter instanceof GreaterThan)
      return compare(name, ((GreaterThan) filter).attribute(), ((GreaterThan) filter).value());
    if (filter instanceof GreaterThanOrEqual)
      return compare(name, ((GreaterThanOrEqual) filter).attribute(), ((GreaterThanOrEqual) filter).value());
    if (filter instanceof StringStartsWith)
      return compare(name, ((StringStartsWith) filter).attribute(), ((StringStartsWith) filter).value());
    if (filter instanceof StringEndsWith)
      return compare(name, ((StringEndsWith) filter).attribute(), ((StringEndsWith) filter).value());
    if (filter instanceof StringContains)
      return compare(name, ((StringContains) filter).attribute(), ((StringContains) filter).value());
    if (filter instanceof In) {
      if (((In) filter).values().length > MANY) return null;
      List<Object> values = new ArrayList<Object>();
      for (Object value : ((In) filter).values()) {
        Object one = value(value);
        if (one == null && value != null) return null;
        values.add(one);
      }
      List<Object> written = column(name, ((In) filter).attribute());
      if (written != null) written.add(values);
      return written;
    }
    return null;
  }

  private static Object both(String name, Filter left, Filter right) {
    Object one = write(left);
    Object other = write(right);
    return one == null || other == null ? null : list(name, one, other, 3);
  }

  private static Object compare(String name, String column, Object value) {
    Object written = value(value);
    List<Object> filter = column(name, column);
    if (filter == null || (written == null && value != null)) return null;
    filter.add(written);
    return filter;
  }

  /** The start of a filter of a column; null if it is of a field within a column. */
  private static List<Object> column(String name, String attribute) {
    Seq parts = CatalystSqlParser$.MODULE$.parseMultipartIdentifier(attribute);
    return parts.size() == 1 ? list(name, parts.head(), null, 2) : null;
  }

  private static List<Object> list(Object first, Object second, Object third, int size) {
    List<Object> all = new ArrayList<Object>();
    all.add(first);
    all.add(second);
    if (size > 2) all.add(third);
    return all;
  }

  /** A value as JSON has it, or with the name of its kind where JSON has no such value; null if it cannot be written. */
  static Object value(Object value) {
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
    return null;
  }

  private static Map<String, Object> kind(String name, Object value) {
    Map<String, Object> tagged = new LinkedHashMap<String, Object>();
    tagged.put(name, value);
    return tagged;
  }
}
