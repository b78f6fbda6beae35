package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.catalyst.util.ResolveDefaultColumns;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * Predicates of Spark's as JSON: [name, column, value, ...] or [name, child, ...]. smalti/spark/filters.py parses it.
 *
 * Their literals have dates as days and timestamps as microseconds. Spark's older filters have them as java.sql.Date and
 * Timestamp, which change days before 1582-10-15 and days that a time zone has skipped.
 */
final class Filters {
  /** Lists of more values take longer to look through than they save. */
  private static final int MANY = 1000;
  /** The predicates whose children are predicates. */
  private static final Set<String> CONNECTIVES = Set.of("AND", "OR", "NOT");

  private Filters() {}

  /** The predicates that can be written; the others are left out, and Spark applies all of them to the rows anyway. */
  static List<Object> write(Predicate[] predicates) {
    List<Object> written = new ArrayList<Object>();
    for (Predicate predicate : predicates) {
      boolean isLong = "IN".equals(predicate.name()) && predicate.children().length > MANY;
      Object one = isLong ? between(predicate.children()) : write(predicate);
      if (one != null) written.add(one);
    }
    return written;
  }

  /** What a long list of numbers, dates or timestamps, such as the keys of a join, says of row groups: its bounds. */
  private static Object between(Expression[] list) {
    Literal least = null;
    Literal most = null;
    for (int index = 1; index < list.length; index++) {
      Literal literal = list[index] instanceof Literal ? (Literal) list[index] : null;
      if (literal == null || !(literal.dataType() instanceof NumericType || isMoment(literal.dataType()))) return null;
      if (literal.value() == null) continue;
      if (least == null || ((Comparable) literal.value()).compareTo(least.value()) < 0) least = literal;
      if (most == null || ((Comparable) literal.value()).compareTo(most.value()) > 0) most = literal;
    }
    if (least == null) return null;
    Predicate from = new Predicate(">=", new Expression[] {list[0], least});
    return write(new Predicate("AND", new Expression[] {from, new Predicate("<=", new Expression[] {list[0], most})}));
  }

  /** Whether Spark has the values of a type as days or microseconds since 1970. */
  private static boolean isMoment(DataType type) {
    return type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  /** One predicate, of whichever kind. Null if it cannot be written. */
  static Object write(Predicate predicate) {
    boolean connects = CONNECTIVES.contains(predicate.name());
    Expression[] children = predicate.children();
    if (children.length == 0 || children.length > MANY) return null; // none: always true, or always false
    List<Object> written = new ArrayList<Object>();
    written.add(predicate.name());
    for (int index = 0; index < children.length; index++) {
      Object one = connects ? write((Predicate) children[index]) : index == 0 ? column(children[0]) : value(children[index]);
      if (one == null && (connects || index == 0 || !isNull(children[index]))) return null;
      written.add(one);
    }
    return written;
  }

  /** The name of a column; null if it is a field within a column, or computed. */
  private static Object column(Expression expression) {
    if (!(expression instanceof NamedReference)) return null;
    String[] names = ((NamedReference) expression).fieldNames();
    return names.length == 1 ? names[0] : null;
  }

  private static boolean isNull(Expression expression) {
    return expression instanceof Literal && ((Literal) expression).value() == null;
  }

  /** A literal as JSON; null if it is null, computed, or of a type that Python does not compare as Spark does. */
  private static Object value(Expression expression) {
    if (!(expression instanceof Literal)) return null;
    DataType type = ((Literal) expression).dataType();
    boolean isCollated = type instanceof StringType && !type.equals(DataTypes.StringType);
    return isCollated || type instanceof DayTimeIntervalType ? null : value(((Literal) expression).value(), type);
  }

  /** A value as Spark holds it in rows, as JSON has it, or with the name of its kind where JSON has no such value. */
  static Object value(Object value, DataType type) {
    if (value instanceof Decimal) return kind("decimal", ((Decimal) value).toJavaBigDecimal().toPlainString());
    if (value instanceof Float || value instanceof Double) return kind("double", String.valueOf(((Number) value).doubleValue()));
    if (value instanceof byte[]) return kind("binary", Base64.getEncoder().encodeToString((byte[]) value));
    if (value == null || value instanceof Boolean || value instanceof Number) return value;
    if (type instanceof StringType) return value.toString();
    if (type instanceof ArrayType) return values((ArrayData) value, ((ArrayType) type).elementType());
    if (type instanceof MapType)
      return Arrays.asList(values(((MapData) value).keyArray(), ((MapType) type).keyType()),
          values(((MapData) value).valueArray(), ((MapType) type).valueType()));
    if (!(type instanceof StructType)) return null;
    List<Object> fields = new ArrayList<Object>();
    for (int index = 0; index < ((StructType) type).size(); index++) {
      DataType field = ((StructType) type).fields()[index].dataType();
      fields.add(value(((InternalRow) value).get(index, field), field));
    }
    return fields;
  }

  private static List<Object> values(ArrayData array, DataType type) {
    List<Object> values = new ArrayList<Object>();
    for (int index = 0; index < array.numElements(); index++) values.add(value(array.get(index, type), type));
    return values;
  }

  /** The values that columns have in files which lack them, by name: Spark keeps them in the metadata of columns. */
  static Map<String, Object> defaults(StructType schema) {
    Map<String, Object> defaults = new LinkedHashMap<String, Object>();
    for (StructField field : schema.fields())
      if (field.getExistenceDefaultValue().isDefined()) {
        Object value = ResolveDefaultColumns.getExistenceDefaultValue(field);
        if (value != null) defaults.put(field.name(), value(value, field.dataType()));
      }
    return defaults;
  }

  private static Map<String, Object> kind(String name, Object value) {
    return Collections.singletonMap(name, value);
  }
}
