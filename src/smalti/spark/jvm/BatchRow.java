package smalti.spark.jvm;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * Stands for one of many rows of a batch in columns, on its way to a writer that takes all of them at once.
 *
 * Spark hands rows to a writer one by one, and counts them. All these rows are the same object: the writer takes the
 * columns when it gets the object for the first time, and does nothing for the others.
 */
final class BatchRow extends GenericInternalRow {
  /** The columns that are written. */
  final ColumnVector[] columns;
  /** Whether a column was computed: it has values for the rows that are written, and no others. */
  private final boolean[] isComputed;
  /** Rows of the batch by their number, null for all; those that are written begin at `first`. */
  private final int[] selected;
  private final int first;
  /** How many rows are written. */
  final int count;
  private boolean taken;

  BatchRow(ColumnVector[] columns, boolean[] isComputed, int[] selected, int first, int count) {
    super(0);
    this.columns = columns;
    this.isComputed = isComputed;
    this.selected = selected;
    this.first = first;
    this.count = count;
  }

  /** The row of a column that has the value of one of the rows that are written. */
  int row(int column, int number) {
    return isComputed[column] ? number : selected == null ? first + number : selected[first + number];
  }

  /** How many of the rows from `number` to `end` follow each other in a column, so that they can be copied together. */
  int run(int column, int number, int end) {
    if (selected == null || isComputed[column]) return end - number;
    int next = number + 1;
    while (next < end && selected[first + next] == selected[first + number] + next - number) next++;
    return next - number;
  }

  /** Whether the rows are still to be written. True once. */
  boolean take() {
    boolean isNew = !taken;
    taken = true;
    return isNew;
  }
}
