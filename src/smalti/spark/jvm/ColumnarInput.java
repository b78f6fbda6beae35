package smalti.spark.jvm;

import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.v2.V2ExistingTableWriteExec;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import scala.collection.immutable.Seq;

/**
 * Writes whose rows come from a scan take them in columns, without a step that makes rows of them.
 *
 * Rows are what a wide write costs: a row of 10,000 columns is made value by value in code that Java's compiler gives up
 * on. What is between the scan and the write may be a filter and a projection. Any other plan is written from rows.
 */
public final class ColumnarInput extends ColumnarRule {
  public Rule preColumnarTransitions() {
    return new TakeBatches();
  }

  static final class TakeBatches extends Rule {
    public TreeNode apply(TreeNode plan) {
      if (!(plan instanceof V2ExistingTableWriteExec)) return plan;
      V2ExistingTableWriteExec write = (V2ExistingTableWriteExec) plan;
      if (!(write.write() instanceof MosaicWrite)) return plan;
      SparkPlan batches = batches(write.query());
      return batches == null ? plan : plan.withNewChildren(BatchesExec.sequence(Collections.singletonList((Object) batches)));
    }

    /** A plan with the rows of `query` that passes on batches; null if they do not come from a scan in batches. */
    private SparkPlan batches(SparkPlan query) {
      SparkPlan scan = query;
      Seq columns = query.output();
      List<Object> conditions = Collections.emptyList();
      if (scan instanceof ProjectExec) {
        columns = ((ProjectExec) scan).projectList();
        scan = ((ProjectExec) scan).child();
      }
      if (scan instanceof FilterExec) {
        FilterExec filter = (FilterExec) scan;
        conditions = BatchesExec.list(filter.splitConjunctivePredicates(filter.condition()));
        scan = filter.child();
      }
      if (!scan.children().isEmpty() || !areSimple(BatchesExec.list(columns)) || !areSimple(conditions)) return null;
      for (Object column : BatchesExec.list(columns)) if (!isPassed(column) && !isFlat(((Expression) column).dataType())) return null;
      if (scan instanceof FileSourceScanExec) scan = inBatches((FileSourceScanExec) scan);
      return scan.supportsColumnar() ? new BatchesExec(scan, columns, BatchesExec.sequence(conditions)) : null;
    }

    /** Whether a column of the scan is written as it is, perhaps by another name. */
    private static boolean isPassed(Object column) {
      return (column instanceof Alias ? ((Alias) column).child() : column) instanceof Attribute;
    }

    /** Whether computed values of a type can be put into a vector of Spark's: those of collated strings cannot. */
    private static boolean isFlat(DataType type) {
      return type instanceof NumericType || type instanceof BooleanType || type.equals(DataTypes.StringType)
          || type instanceof BinaryType || type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType;
    }

    /** Whether expressions can be computed by themselves, at any moment. */
    private static boolean areSimple(List<Object> expressions) {
      for (Object expression : expressions)
        if (!((Expression) expression).deterministic() || ((Expression) expression).containsPattern(TreePattern.PLAN_EXPRESSION()))
          return false;
      return true;
    }

    /**
     * A scan of Spark's own formats that gives batches however many columns there are, in batches that take no more
     * memory than what is sent at once. Spark takes both from the settings of the session that the scan belongs to,
     * so the scan gets a session of its own, unless it is fine as it is.
     */
    private SparkPlan inBatches(FileSourceScanExec scan) {
      HadoopFsRelation relation = scan.relation();
      int rows = RowsToArrow.capacity(leaves(scan.schema()));
      SparkSession session = (SparkSession) relation.sparkSession();
      SQLConf settings = session.sessionState().conf();
      int parquet = settings.parquetVectorizedReaderBatchSize();
      int orc = settings.orcVectorizedReaderBatchSize();
      if (rows >= Math.max(parquet, orc) && scan.supportsColumnar()) return scan;
      SparkSession own = session.cloneSession();
      settings = own.sessionState().conf();
      settings.setConfString("spark.sql.codegen.maxFields", String.valueOf(Integer.MAX_VALUE));
      settings.setConfString("spark.sql.parquet.columnarReaderBatchSize", String.valueOf(Math.min(rows, parquet)));
      settings.setConfString("spark.sql.orc.columnarReaderBatchSize", String.valueOf(Math.min(rows, orc)));
      Object[] parts = new Object[scan.productArity()];
      for (int index = 0; index < parts.length; index++) {
        parts[index] = scan.productElement(index);
        if (parts[index] == relation)
          parts[index] = new HadoopFsRelation(relation.location(), relation.partitionSchema(), relation.dataSchema(),
              relation.bucketSpec(), relation.fileFormat(), relation.options(), own);
      }
      return (SparkPlan) scan.makeCopy(parts);
    }

    /** How many columns a type is stored in, of which each takes memory for every row of a batch. */
    private static int leaves(DataType type) {
      if (type instanceof ArrayType) return leaves(((ArrayType) type).elementType());
      if (!(type instanceof StructType)) return 1;
      int leaves = 0;
      for (StructField field : ((StructType) type).fields()) leaves += leaves(field.dataType());
      return leaves;
    }
  }
}
