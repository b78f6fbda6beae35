package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.ColumnarToRowTransition;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.AbstractIterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Hands the batches of a scan to a write as they are, in columns. See ColumnarInput, which puts it into plans.
 *
 * It does the work of a filter and of a projection between the scan and the write: conditions choose rows of the
 * batch, columns that are only chosen are passed on, and columns that are computed are computed row by row.
 */
public final class BatchesExec extends SparkPlan implements ColumnarToRowTransition {
  private final SparkPlan child;
  private final Seq columns;
  private final Seq conditions;

  /** `columns` are named expressions over the scan's output. Rows for which all `conditions` are true are written. */
  public BatchesExec(SparkPlan child, Seq columns, Seq conditions) {
    this.child = child;
    this.columns = columns;
    this.conditions = conditions;
  }

  public RDD doExecute() {
    Convert convert = new Convert(child.output(), columns, conditions);
    return child.executeColumnar().mapPartitions(convert, false, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  public Seq output() {
    List<Object> attributes = new ArrayList<Object>();
    for (Object column : list(columns)) attributes.add(((NamedExpression) column).toAttribute());
    return sequence(attributes);
  }

  public SparkPlan child() {
    return child;
  }

  public Seq children() {
    return sequence(Collections.singletonList((Object) child));
  }

  public TreeNode mapChildren(Function1 change) {
    return withNewChildInternal((TreeNode) change.apply(child));
  }

  public TreeNode withNewChildrenInternal(IndexedSeq changed) {
    return withNewChildInternal((TreeNode) changed.head());
  }

  public TreeNode withNewChildInternal(TreeNode changed) {
    return new BatchesExec((SparkPlan) changed, columns, conditions);
  }

  public String nodeName() {
    return "MosaicBatches";
  }

  public int productArity() {
    return 3;
  }

  public Object productElement(int index) {
    return index == 0 ? child : index == 1 ? columns : conditions;
  }

  public boolean canEqual(Object other) {
    return other instanceof BatchesExec;
  }

  static List<Object> list(Seq values) {
    return (List<Object>) CollectionConverters.asJava(values);
  }

  static Seq sequence(List<Object> values) {
    return CollectionConverters.asScala(values).toList();
  }

  /** From the batches of a task to rows that stand for them. It is sent to the tasks. */
  static final class Convert extends AbstractFunction1 implements java.io.Serializable {
    private final Seq input;
    private final Seq conditions;
    private final Seq computed;
    /** The types of what is computed, under any names. */
    private final StructType schema;
    /** For each column that is written: its index in the input, or -1 if it is computed. */
    private final int[] indices;

    Convert(Seq input, Seq columns, Seq conditions) {
      this.input = input;
      this.conditions = conditions;
      Map<Object, Integer> indexOf = new HashMap<Object, Integer>();
      int index = 0;
      for (Object attribute : list(input)) indexOf.put(((Attribute) attribute).exprId(), Integer.valueOf(index++));
      this.indices = new int[columns.size()];
      List<Object> expressions = new ArrayList<Object>();
      List<StructField> fields = new ArrayList<StructField>();
      int column = 0;
      for (Object named : list(columns)) {
        Expression expression = (Expression) (named instanceof Alias ? ((Alias) named).child() : named);
        boolean isPassed = expression instanceof Attribute;
        indices[column++] = isPassed ? ((Integer) indexOf.get(((Attribute) expression).exprId())).intValue() : -1;
        if (isPassed) continue;
        expressions.add(expression);
        fields.add(DataTypes.createStructField("c" + column, expression.dataType(), true));
      }
      this.computed = sequence(expressions);
      this.schema = DataTypes.createStructType(fields);
    }

    public Object apply(Object batches) {
      return new Rows((Iterator) batches);
    }

    private final class Rows extends AbstractIterator {
      private final Iterator batches;
      private final BasePredicate[] predicates;
      private final UnsafeProjection projection;
      private final RowToColumnConverter converter;
      private ColumnarBatch batch;
      private ColumnVector[] given;
      private ColumnarBatchRow row;
      /** The rows of the batch that are written, by their number; null for all. */
      private int[] selected;
      private int count;
      /** How many of these rows have been handed on. */
      private int done;
      private BatchRow current;
      private int left;

      Rows(Iterator batches) {
        this.batches = batches;
        this.predicates = new BasePredicate[conditions.size()];
        for (int number = 0; number < predicates.length; number++)
          predicates[number] = Predicate$.MODULE$.create((Expression) conditions.apply(number), input);
        this.projection = computed.isEmpty() ? null : UnsafeProjection.create(computed, input);
        this.converter = new RowToColumnConverter(schema);
      }

      public boolean hasNext() {
        while (left == 0) {
          if (done == count && !nextBatch()) return false;
          if (done < count) nextRows();
        }
        return true;
      }

      public Object next() {
        if (!hasNext()) throw new NoSuchElementException();
        left--;
        return current;
      }

      /** The writer has copied the last batch: its reader may use the memory again. */
      private boolean nextBatch() {
        if (batch != null) batch.closeIfFreeable();
        batch = null;
        if (!batches.hasNext()) return false;
        batch = (ColumnarBatch) batches.next();
        given = new ColumnVector[batch.numCols()];
        for (int index = 0; index < given.length; index++) given[index] = batch.column(index);
        row = new ColumnarBatchRow(given);
        selected = predicates.length == 0 ? null : new int[batch.numRows()];
        count = batch.numRows();
        done = 0;
        if (selected == null) return true;
        count = 0;
        for (row.rowId = 0; row.rowId < selected.length; row.rowId++)
          if (isSelected()) selected[count++] = row.rowId;
        if (count == selected.length) selected = null;
        return true;
      }

      /** A row is rejected by the first condition that is not true. Those after it may be errors for the row. */
      private boolean isSelected() {
        for (BasePredicate predicate : predicates) if (!predicate.eval(row)) return false;
        return true;
      }

      /**
       * Hand on all rows that are left of the batch, or fewer if columns are computed and have many bytes. Values are
       * computed for rows that are written only: for others, they may be errors.
       */
      private void nextRows() {
        int first = done;
        WritableColumnVector[] values = OnHeapColumnVector.allocateColumns(count - first, schema);
        if (projection == null) done = count;
        for (long bytes = 0L; done < count && bytes < RowsToArrow.BATCH_BYTES; done++) {
          row.rowId = selected == null ? done : selected[done];
          UnsafeRow result = projection.apply(row);
          converter.convert(result, values);
          bytes += result.getSizeInBytes();
        }
        ColumnVector[] columns = new ColumnVector[indices.length];
        boolean[] isComputed = new boolean[indices.length];
        int next = 0;
        for (int column = 0; column < columns.length; column++) {
          isComputed[column] = indices[column] < 0;
          columns[column] = isComputed[column] ? values[next++] : given[indices[column]];
        }
        left = done - first;
        current = new BatchRow(columns, isComputed, selected, first, left);
      }
    }
  }
}
