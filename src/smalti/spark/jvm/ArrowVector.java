package smalti.spark.jvm;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of numbers, moments, decimals of up to 18 digits, texts or bytes, read where Arrow has it in memory.
 *
 * Spark's own vector asks Arrow's for each value, which checks bounds and makes a BigDecimal of every decimal. Columns of
 * other types are left to it.
 */
final class ArrowVector extends ColumnVector {
  private final FieldVector vector;
  private final int nulls;
  private final long validity;
  private final long data;
  private final long offsets;

  private ArrowVector(FieldVector vector, DataType type, long offsets) {
    super(type);
    this.vector = vector;
    this.nulls = vector.getNullCount();
    this.validity = vector.getValidityBufferAddress();
    this.data = vector.getDataBufferAddress();
    this.offsets = offsets;
  }

  static ColumnVector of(FieldVector vector, DataType type) {
    boolean isWide = type instanceof DecimalType && ((DecimalType) type).precision() > Decimal.MAX_LONG_DIGITS();
    boolean isFlat = vector instanceof BaseFixedWidthVector && !(type instanceof CalendarIntervalType);
    if (isFlat && !isWide) return new ArrowVector(vector, type, 0L);
    if (vector instanceof BaseVariableWidthVector && (type instanceof StringType || type instanceof BinaryType))
      return new ArrowVector(vector, type, vector.getOffsetBufferAddress());
    return new ArrowColumnVector(vector) {
      // Spark closes the columns of a batch before it asks for the next one, which takes the fields out of structs.
      public void close() {}
    };
  }

  /** The memory belongs to the stream. */
  public void close() {}

  public boolean hasNull() {
    return nulls > 0;
  }

  public int numNulls() {
    return nulls;
  }

  public boolean isNullAt(int row) {
    return nulls > 0 && (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0;
  }

  public boolean getBoolean(int row) {
    return (Platform.getByte(null, data + (row >> 3)) >> (row & 7) & 1) != 0;
  }

  public byte getByte(int row) {
    return Platform.getByte(null, data + row);
  }

  public short getShort(int row) {
    return Platform.getShort(null, data + 2L * row);
  }

  public int getInt(int row) {
    return Platform.getInt(null, data + 4L * row);
  }

  public long getLong(int row) {
    return Platform.getLong(null, data + 8L * row);
  }

  public float getFloat(int row) {
    return Platform.getFloat(null, data + 4L * row);
  }

  public double getDouble(int row) {
    return Platform.getDouble(null, data + 8L * row);
  }

  /** The lower half of Arrow's sixteen bytes is the whole number of up to 18 digits. */
  public Decimal getDecimal(int row, int precision, int scale) {
    return isNullAt(row) ? null : Decimal.createUnsafe(Platform.getLong(null, data + 16L * row), precision, scale);
  }

  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) return null;
    int start = Platform.getInt(null, offsets + 4L * row);
    return UTF8String.fromAddress(null, data + start, Platform.getInt(null, offsets + 4L * row + 4L) - start);
  }

  public byte[] getBinary(int row) {
    if (isNullAt(row)) return null;
    int start = Platform.getInt(null, offsets + 4L * row);
    byte[] bytes = new byte[Platform.getInt(null, offsets + 4L * row + 4L) - start];
    Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  /** Where the bytes of a text begin, and those of the text before it end. */
  int offset(int row) {
    return Platform.getInt(null, offsets + 4L * row);
  }

  /** Copy values of `width` bytes to an address. */
  void copyValues(int row, int count, int width, long target) {
    Platform.copyMemory(null, data + (long) width * row, null, target, (long) width * count);
  }

  public ColumnarArray getArray(int row) {
    throw new UnsupportedOperationException(dataType().simpleString());
  }

  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException(dataType().simpleString());
  }

  public ColumnVector getChild(int index) {
    throw new UnsupportedOperationException(dataType().simpleString());
  }
}
