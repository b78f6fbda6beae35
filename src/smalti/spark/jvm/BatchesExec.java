package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.ColumnarToRowTransition;
import org.apache.spark.sql.execution.RowToColumnConverter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
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
 * It does the work of a filter and of a projection between the scan and the write: the condition chooses rows of the
 * batch, columns that are only chosen are passed on, and columns that are computed are computed row by row.
 */
public final class BatchesExec extends SparkPlan implements ColumnarToRowTransition {
  private final SparkPlan child;
  private final Seq columns;
  private final Seq conditions;

  /** `columns` are named expressions over the scan's output; `conditions` are one condition, or none. */
  public BatchesExec(SparkPlan child, Seq columns, Seq conditions) {
    this.child = child;
    this.columns = columns;
    this.conditions = conditions;
  }

  public RDD doExecute() {
    Convert convert = new Convert(list(child.output()), list(columns), list(conditions));
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
    return sequence(Arrays.asList(new Object[] {child}));
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

  public Object productElement(int place) {
    return place == 0 ? child : place == 1 ? columns : conditions;
  }

  public boolean canEqual(Object other) {
    return other instanceof BatchesExec;
  }

  public int hashCode() {
    return scala.runtime.ScalaRunTime$.MODULE$._hashCode(this);
  }

  public boolean equals(Object other) {
    return this == other || other instanceof BatchesExec && child.equals(((BatchesExec) other).child)
        && columns.equals(((BatchesExec) other).columns) && conditions.equals(((BatchesExec) other).conditions);
  }

  static List<Object> list(Seq values) {
    return new ArrayList<Object>((List<Object>) CollectionConverters.asJava(values));
  }

  static Seq sequence(List<Object> values) {
    return scala.collection.immutable.Nil$.MODULE$.appendedAll(CollectionConverters.asScala(values)).toSeq();
  }

  /** From the batches of a task to rows that stand for them. Travels to the tasks. */
  static final class Convert extends AbstractFunction1 implements java.io.Serializable {
    private final ArrayList<Object> input;
    private final ArrayList<Object> computed = new ArrayList<Object>();
    private final ArrayList<Object> conditions;
    /** For each column that is written: its place in the input, or -1 if it is computed. */
    private final int[] places;
    private final StructType schema;

    Convert(List<Object> input, List<Object> columns, List<Object> conditions) {
      this.input = new ArrayList<Object>(input);
      this.conditions = new ArrayList<Object>(conditions);
      this.places = new int[columns.size()];
      java.util.Map<Object, Integer> byId = new java.util.HashMap<Object, Integer>();
      for (int place = 0; place < input.size(); place++)
        byId.put(((Attribute) input.get(place)).exprId(), Integer.valueOf(place));
      StructType types = new StructType();
      for (int column = 0; column < places.length; column++) {
        Object expression = columns.get(column) instanceof Alias ? ((Alias) columns.get(column)).child() : columns.get(column);
        places[column] = -1;
        if (expression instanceof Attribute) places[column] = ((Integer) byId.get(((Attribute) expression).exprId())).intValue();
        else {
          types = types.add("c" + computed.size(), ((Expression) expression).dataType(), true);
          computed.add(expression);
        }
      }
      this.schema = types;
    }

    public Object apply(Object batches) {
      return new Rows((Iterator) batches);
    }

    private final class Rows extends AbstractIterator {
      private final Iterator batches;
      private final BasePredicate predicate;
      private final UnsafeProjection projection;
      private final RowToColumnConverter converter;
      private WritableColumnVector[] values;
      private BatchRow current;
      private int left;

      Rows(Iterator batches) {
        this.batches = batches;
        Seq attributes = sequence(input);
        this.predicate = conditions.isEmpty() ? null : Predicate$.MODULE$.create((Expression) conditions.get(0), attributes);
        this.projection = computed.isEmpty() ? null : UnsafeProjection.create(sequence(computed), attributes);
        this.converter = computed.isEmpty() ? null : new RowToColumnConverter(schema);
      }

      public boolean hasNext() {
        while (left == 0 && batches.hasNext()) {
          current = rows((ColumnarBatch) batches.next());
          left = current.count;
        }
        return left > 0;
      }

      public Object next() {
        if (!hasNext()) throw new java.util.NoSuchElementException();
        left--;
        return current;
      }

      private BatchRow rows(ColumnarBatch batch) {
        ColumnVector[] all = new ColumnVector[batch.numCols()];
        for (int place = 0; place < all.length; place++) all[place] = batch.column(place);
        ColumnarBatchRow row = new ColumnarBatchRow(all);
        int count = batch.numRows();
        int[] selected = null;
        if (predicate != null) {
          int[] matching = new int[count];
          count = 0;
          for (int number = 0; number < matching.length; number++) {
            row.rowId = number;
            if (predicate.eval(row)) matching[count++] = number;
          }
          if (count < matching.length) selected = matching;
        }
        if (projection != null) compute(row, selected, count);
        ColumnVector[] columns = new ColumnVector[places.length];
        boolean[] isComputed = new boolean[places.length];
        int number = 0;
        for (int column = 0; column < columns.length; column++) {
          isComputed[column] = places[column] < 0;
          columns[column] = isComputed[column] ? values[number++] : all[places[column]];
        }
        return new BatchRow(columns, isComputed, selected, count);
      }

      /** Rows that the condition rejects are left out: a value that they have may be an error to the expression. */
      private void compute(ColumnarBatchRow row, int[] selected, int count) {
        values = OnHeapColumnVector.allocateColumns(Math.max(1, count), schema);
        for (int number = 0; number < count; number++) {
          row.rowId = selected == null ? number : selected[number];
          converter.convert(projection.apply(row), values);
        }
      }
    }
  }
}
