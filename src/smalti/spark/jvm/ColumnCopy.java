package smalti.spark.jvm;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Copies values of a column, many at a time, to the memory of an Arrow vector.
 *
 * The types are those that need no writer of Spark's: numbers, decimals of up to 18 digits, moments, strings and bytes.
 * The vector has memory for all of its rows, apart from the bytes of strings, and its rows count as valid until now.
 */
final class ColumnCopy {
  private ColumnCopy() {}

  /**
   * Copy rows that follow each other, from the row `row` of a column to the index `index` of a vector. The answer is how
   * many bytes strings and bytes have.
   */
  static long copy(ColumnVector from, int row, int count, FieldVector vector, int index) {
    boolean isFixed = vector instanceof BaseFixedWidthVector;
    boolean hasNull = from.hasNull();
    // In the place of a null, a column may have anything, or refuse to say what it has.
    for (int first = 0, next; first < count; first = next + 1) {
      for (next = hasNull ? first : count; next < count && !from.isNullAt(row + next); ) next++;
      if (isFixed) copyValues(from, row + first, next - first, (BaseFixedWidthVector) vector, index + first);
      if (next < count) setBit(vector.getValidityBufferAddress(), index + next, false);
    }
    return isFixed ? 0L : copyBytes(from, row, count, (BaseVariableWidthVector) vector, index);
  }

  /** Values without nulls. */
  private static void copyValues(ColumnVector from, int row, int count, BaseFixedWidthVector vector, int index) {
    int width = vector.getTypeWidth();
    long target = vector.getDataBufferAddress() + (long) width * index;
    if (vector instanceof BitVector) {
      for (int number = 0; number < count; number++)
        if (from.getBoolean(row + number)) setBit(vector.getDataBufferAddress(), index + number, true);
    } else if (vector instanceof DecimalVector) {
      DecimalType type = (DecimalType) from.dataType();
      for (int number = 0; number < count; number++) {
        long value = from.getDecimal(row + number, type.precision(), type.scale()).toUnscaledLong();
        Platform.putLong(null, target + 16L * number, value);
        Platform.putLong(null, target + 16L * number + 8L, value >> 63);
      }
    } else if (from instanceof ArrowVector) {
      ((ArrowVector) from).copyValues(row, count, width, target);
    } else if (from.dataType() instanceof DoubleType) {
      Platform.copyMemory(from.getDoubles(row, count), Platform.DOUBLE_ARRAY_OFFSET, null, target, 8L * count);
    } else if (from.dataType() instanceof FloatType) {
      Platform.copyMemory(from.getFloats(row, count), Platform.FLOAT_ARRAY_OFFSET, null, target, 4L * count);
    } else if (width == 8) {
      Platform.copyMemory(from.getLongs(row, count), Platform.LONG_ARRAY_OFFSET, null, target, 8L * count);
    } else if (width == 4) {
      Platform.copyMemory(from.getInts(row, count), Platform.INT_ARRAY_OFFSET, null, target, 4L * count);
    } else if (width == 2) {
      Platform.copyMemory(from.getShorts(row, count), Platform.SHORT_ARRAY_OFFSET, null, target, 2L * count);
    } else {
      Platform.copyMemory(from.getBytes(row, count), Platform.BYTE_ARRAY_OFFSET, null, target, count);
    }
  }

  /** Strings or bytes, which take up no memory where they are null. */
  private static long copyBytes(ColumnVector from, int row, int count, BaseVariableWidthVector vector, int index) {
    boolean isText = from.dataType() instanceof StringType;
    long offsets = vector.getOffsetBufferAddress() + 4L * index;
    int before = Platform.getInt(null, offsets);
    int end = before;
    if (from instanceof ArrowVector) {
      ArrowVector arrow = (ArrowVector) from;
      int start = arrow.offset(row);
      int length = arrow.offset(row + count) - start;
      arrow.copyValues(start, length, 1, reserve(vector, before, length));
      for (int number = 1; number <= count; number++)
        Platform.putInt(null, offsets + 4L * number, before + arrow.offset(row + number) - start);
      return length;
    }
    for (int number = 0; number < count; number++) {
      if (!from.isNullAt(row + number)) {
        UTF8String text = isText ? from.getUTF8String(row + number) : UTF8String.fromBytes(from.getBinary(row + number));
        text.writeToMemory(null, reserve(vector, end, text.numBytes()));
        end += text.numBytes();
      }
      Platform.putInt(null, offsets + 4L * (number + 1), end);
    }
    return end - before;
  }

  /** The address of byte `start` of a vector, after which there is memory for `length` bytes. */
  private static long reserve(BaseVariableWidthVector vector, int start, int length) {
    long capacity = vector.getDataBuffer().capacity();
    long end = (long) start + length;
    if (end > Integer.MAX_VALUE) throw new IllegalArgumentException("column '" + vector.getName() + "': 2 GB or more in a batch");
    if (end > capacity) vector.reallocDataBuffer(Math.max(2L * capacity, end));
    return vector.getDataBufferAddress() + start;
  }

  static void setBit(long bits, int number, boolean value) {
    long address = bits + (number >> 3);
    int bit = 1 << (number & 7);
    Platform.putByte(null, address, (byte) (value ? Platform.getByte(null, address) | bit : Platform.getByte(null, address) & ~bit));
  }
}
