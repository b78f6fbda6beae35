package smalti.spark.jvm;

import java.io.IOException;
import java.util.Arrays;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowFieldWriter;
import org.apache.spark.sql.execution.arrow.ArrowWriter$;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;
import org.apache.spark.unsafe.Platform;

/**
 * Turns rows into Arrow batches column by column, and sends the batches to a Python worker. Batches that Spark has in
 * columns already are copied column by column, too.
 *
 * Spark's own ArrowWriter goes row by row, so that each value of a wide row is written to another part of memory. Here
 * rows are first copied side by side into a chunk that fits the processor's cache, and each column is then copied from
 * all rows of the chunk. Columns of nested types, and decimals of more than 18 digits, are left to Spark's writers.
 */
final class RowsToArrow {
  private static final int CHUNK_BYTES = 1 << 21;
  private static final int CHUNK_ROWS = 4096;
  /** A batch is sent when its rows take this many bytes, or when the vectors are full. */
  static final long BATCH_BYTES = 32L << 20;
  private static final int MOST_ROWS = 1 << 16;
  /** The most rows of a batch in columns that are copied before the bytes are counted. */
  private static final int SLICE_ROWS = 256;
  private final Worker worker;
  private final BufferAllocator allocator;
  private final VectorSchemaRoot root;
  private final ArrowStreamWriter stream;
  /** Makes an UnsafeRow of another row. It is compiled when there is one: this takes long for many columns. */
  private UnsafeProjection projection;
  private final StructType schema;
  private final UnsafeRow row;
  private final FieldVector[] vectors;
  /** Spark's writer of a column, or null if the column is copied here. */
  private final ArrowFieldWriter[] writers;
  private final int capacity;
  /** Where the values of an UnsafeRow begin: its first bytes say which of them are null. */
  private final int nullBytes;
  private byte[] chunk = new byte[CHUNK_BYTES];
  private int used;
  private final long[] starts = new long[CHUNK_ROWS];
  private final int[] sizes = new int[CHUNK_ROWS];
  /** For each column, a bit that says whether it is null in any row of the chunk. */
  private final long[] anyNull;
  private int waiting;
  private int rows;
  private long bytes;
  /** How many rows of a batch in columns are copied next. */
  private int slice = 1;

  RowsToArrow(Worker worker, Schema arrow, StructType schema) throws IOException {
    this.worker = worker;
    this.allocator = ArrowUtils.rootAllocator().newChildAllocator("mosaic write", 0L, Long.MAX_VALUE);
    this.root = VectorSchemaRoot.create(arrow, allocator);
    this.schema = schema;
    int columns = schema.size();
    this.row = new UnsafeRow(columns);
    this.nullBytes = UnsafeRow.calculateBitSetWidthInBytes(columns);
    this.anyNull = new long[nullBytes / 8];
    this.capacity = capacity(columns);
    this.vectors = new FieldVector[columns];
    this.writers = new ArrowFieldWriter[columns];
    for (int column = 0; column < columns; column++) {
      FieldVector vector = root.getVector(column);
      vectors[column] = vector;
      boolean isWide = schema.fields()[column].dataType() instanceof DecimalType
          && ((DecimalType) schema.fields()[column].dataType()).precision() > Decimal.MAX_LONG_DIGITS();
      if (!isWide && vector instanceof BaseFixedWidthVector) {
        ((BaseFixedWidthVector) vector).allocateNew(capacity);
      } else if (vector instanceof BaseVariableWidthVector) {
        ((BaseVariableWidthVector) vector).allocateNew(8L * capacity, capacity);
      } else {
        vector.allocateNew();
        writers[column] = ArrowWriter$.MODULE$.createFieldWriter(vector);
      }
      clear(column);
    }
    this.stream = new ArrowStreamWriter(root, null, worker);
    stream.start();
  }

  /** How many rows a batch with this number of columns has at most. */
  static int capacity(int columns) {
    return (int) Math.max(1L, Math.min((long) MOST_ROWS, BATCH_BYTES / (8L * columns + 8L)));
  }

  void add(InternalRow given) throws IOException {
    if (given instanceof BatchRow) {
      if (((BatchRow) given).take()) addBatch((BatchRow) given);
      return;
    }
    if (projection == null && !(given instanceof UnsafeRow)) projection = UnsafeProjection.create(schema);
    UnsafeRow next = given instanceof UnsafeRow ? (UnsafeRow) given : projection.apply(given);
    int size = next.getSizeInBytes();
    if (used + size > chunk.length || waiting == CHUNK_ROWS || rows + waiting == capacity) {
      transpose();
      if (rows == capacity || bytes + size > BATCH_BYTES) send();
      if (size > chunk.length) chunk = new byte[size];
    }
    long start = Platform.BYTE_ARRAY_OFFSET + (long) used;
    Platform.copyMemory(next.getBaseObject(), next.getBaseOffset(), chunk, start, size);
    starts[waiting] = start;
    sizes[waiting++] = size;
    used += size;
    for (int word = 0; word < anyNull.length; word++) anyNull[word] |= Platform.getLong(chunk, start + 8L * word);
  }

  /**
   * Copy a batch in slices. How many bytes a slice has is known when it is copied, so slices grow slowly as long as
   * values are small, and shrink when they were not.
   */
  private void addBatch(BatchRow batch) throws IOException {
    for (int start = 0, end; start < batch.count; start = end) {
      end = Math.min(batch.count, start + Math.min(slice, capacity - rows));
      bytes += (end - start) * 8L * vectors.length;
      long nested = 0L;
      for (int column = 0; column < vectors.length; column++) {
        for (int number = start, run; number < end; number += run) {
          run = batch.run(column, number, end);
          copyRun(batch.columns[column], batch.row(column, number), run, column, rows + number - start);
        }
        if (writers[column] != null) nested += writers[column].getSizeInBytes();
      }
      rows += end - start;
      boolean isLarge = bytes + nested > BATCH_BYTES;
      slice = isLarge ? Math.max(1, slice / 2) : Math.min(SLICE_ROWS, 2 * slice);
      if (isLarge || rows == capacity) send();
    }
  }

  /** Copy rows of a batch that follow each other, from the row `row` of a column to the index `index` of its vector. */
  private void copyRun(ColumnVector from, int row, int count, int column, int index) {
    if (writers[column] == null) {
      bytes += ColumnCopy.copy(from, row, count, vectors[column], index);
      return;
    }
    ColumnarBatchRow view = new ColumnarBatchRow(new ColumnVector[] {from});
    for (view.rowId = row; view.rowId < row + count; view.rowId++) writers[column].write(view, 0);
  }

  /** Send what is left, and end the stream. */
  void finish() throws IOException {
    transpose();
    if (rows > 0) send();
    stream.end();
    worker.flush();
  }

  /** Copy the rows of the chunk to the vectors. */
  private void transpose() {
    for (int column = 0; column < vectors.length; column++) {
      if (writers[column] != null) {
        for (int number = 0; number < waiting; number++) {
          row.pointTo(chunk, starts[number], sizes[number]);
          writers[column].write(row, column);
        }
        continue;
      }
      if (vectors[column] instanceof BaseVariableWidthVector) copyBytes((BaseVariableWidthVector) vectors[column], column);
      else copyValues((BaseFixedWidthVector) vectors[column], column);
      if ((anyNull[column >> 6] >> (column & 63) & 1L) != 0L) copyNulls(column);
    }
    rows += waiting;
    bytes += used;
    waiting = 0;
    used = 0;
    Arrays.fill(anyNull, 0L);
  }

  private void copyValues(BaseFixedWidthVector vector, int column) {
    long slot = nullBytes + 8L * column;
    long data = vector.getDataBufferAddress();
    if (vector instanceof BitVector) {
      for (int number = 0; number < waiting; number++)
        if (Platform.getByte(chunk, starts[number] + slot) != 0) ColumnCopy.setBit(data, rows + number, true);
    } else if (vector instanceof DecimalVector) {
      for (int number = 0; number < waiting; number++) {
        long value = Platform.getLong(chunk, starts[number] + slot);
        Platform.putLong(null, data + 16L * (rows + number), value);
        Platform.putLong(null, data + 16L * (rows + number) + 8L, value >> 63);
      }
    } else if (vector.getTypeWidth() == 8) {
      for (int number = 0; number < waiting; number++)
        Platform.putLong(null, data + 8L * (rows + number), Platform.getLong(chunk, starts[number] + slot));
    } else if (vector.getTypeWidth() == 4) {
      for (int number = 0; number < waiting; number++)
        Platform.putInt(null, data + 4L * (rows + number), Platform.getInt(chunk, starts[number] + slot));
    } else if (vector.getTypeWidth() == 2) {
      for (int number = 0; number < waiting; number++)
        Platform.putShort(null, data + 2L * (rows + number), Platform.getShort(chunk, starts[number] + slot));
    } else {
      for (int number = 0; number < waiting; number++)
        Platform.putByte(null, data + (rows + number), Platform.getByte(chunk, starts[number] + slot));
    }
  }

  /** Strings and bytes: the slot of a value has its offset within the row in the upper half, its length in the lower. */
  private void copyBytes(BaseVariableWidthVector vector, int column) {
    long slot = nullBytes + 8L * column;
    long offsets = vector.getOffsetBufferAddress();
    long data = vector.getDataBufferAddress();
    long allocated = vector.getDataBuffer().capacity();
    int end = Platform.getInt(null, offsets + 4L * rows);
    for (int number = 0; number < waiting; number++) {
      long offsetAndSize = Platform.getLong(chunk, starts[number] + slot);
      int length = isNull(number, column) ? 0 : (int) offsetAndSize;
      if (end + (long) length > allocated) {
        vector.reallocDataBuffer(Math.max(2L * allocated, end + (long) length));
        data = vector.getDataBufferAddress();
        allocated = vector.getDataBuffer().capacity();
      }
      Platform.copyMemory(chunk, starts[number] + (offsetAndSize >>> 32), null, data + end, length);
      end += length;
      Platform.putInt(null, offsets + 4L * (rows + number + 1), end);
    }
  }

  private boolean isNull(int number, int column) {
    return (Platform.getLong(chunk, starts[number] + 8L * (column >> 6)) >> (column & 63) & 1L) != 0L;
  }

  private void copyNulls(int column) {
    long validity = vectors[column].getValidityBufferAddress();
    for (int number = 0; number < waiting; number++)
      if (isNull(number, column)) ColumnCopy.setBit(validity, rows + number, false);
  }

  /** Make a vector empty. Its values are taken to be valid, until `copyNulls` says otherwise. */
  private void clear(int column) {
    if (writers[column] != null) {
      writers[column].reset();
      return;
    }
    FieldVector vector = vectors[column];
    Platform.setMemory(vector.getValidityBufferAddress(), (byte) -1, capacity + 7 >> 3);
    if (vector instanceof BitVector) Platform.setMemory(vector.getDataBufferAddress(), (byte) 0, capacity + 7 >> 3);
    if (vector instanceof BaseVariableWidthVector) Platform.putInt(null, vector.getOffsetBufferAddress(), 0);
  }

  private void send() throws IOException {
    for (int column = 0; column < vectors.length; column++) {
      if (writers[column] != null) writers[column].finish();
      // Otherwise Arrow takes the offsets of these rows for missing ones, and fills them in.
      else if (vectors[column] instanceof BaseVariableWidthVector)
        ((BaseVariableWidthVector) vectors[column]).setLastSet(rows - 1);
    }
    root.setRowCount(rows);
    stream.writeBatch();
    for (int column = 0; column < vectors.length; column++) clear(column);
    rows = 0;
    bytes = 0L;
  }

  void close() {
    root.close();
    allocator.close();
  }
}
