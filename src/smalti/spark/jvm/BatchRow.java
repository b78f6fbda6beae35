package smalti.spark.jvm;

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * Stands for one row of a batch in columns, on its way to a writer that takes the whole batch.
 *
 * Spark hands rows to a writer one by one, and counts them. All rows of a batch are the same object: the writer takes the
 * columns when it gets the object for the first time, and does nothing for the others.
 */
final class BatchRow extends GenericInternalRow {
  /** The columns that are written. */
  final ColumnVector[] columns;
  /** Whether a column was computed for the selected rows only, so that it has no values for others. */
  final boolean[] computed;
  /** The rows that are written, by their number in the batch; null for all. */
  final int[] selected;
  /** How many rows are written. */
  final int count;
  private boolean taken;

  BatchRow(ColumnVector[] columns, boolean[] computed, int[] selected, int count) {
    super(0);
    this.columns = columns;
    this.computed = computed;
    this.selected = selected;
    this.count = count;
  }

  /** Whether the batch is still to be written. True once. */
  boolean take() {
    boolean first = !taken;
    taken = true;
    return first;
  }
}
