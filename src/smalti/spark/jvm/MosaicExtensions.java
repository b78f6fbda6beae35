package smalti.spark.jvm;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * What a session takes up only when it is made: SELECT .. FROM mosaic.`path`, and writes from batches in columns, see
 * ColumnarInput. All other statements are in Statements.
 *
 * Spark refuses names of other formats in the step that resolves names, so one rule comes before it, in the place of
 * rules for hints. Spark finds this class by META-INF/services.
 */
public class MosaicExtensions extends AbstractFunction1 implements SparkSessionExtensionsProvider {
  public Object apply(Object extensions) {
    SparkSessionExtensions given = (SparkSessionExtensions) extensions;
    given.injectHintResolutionRule(new AbstractFunction1() {
      public Object apply(Object session) {
        return new ResolvePaths((SparkSession) session);
      }
    });
    given.injectPostHocResolutionRule(new AbstractFunction1() {
      public Object apply(Object session) {
        return new ShowComments((SparkSession) session);
      }
    });
    given.injectColumnar(new AbstractFunction1() {
      public Object apply(Object session) {
        return new ColumnarInput();
      }
    });
    return BoxedUnit.UNIT;
  }

  /** SELECT .. FROM mosaic.`path`. */
  static final class ResolvePaths extends PartRule {
    ResolvePaths(SparkSession session) {
      super(session);
    }

    public TreeNode apply(TreeNode plan) {
      Statements.install(session);
      return SQLConf.get().runSQLonFile() ? ((LogicalPlan) plan).transformDownWithSubqueries(changes) : plan;
    }

    Object change(Object node) {
      if (!(node instanceof UnresolvedRelation) || ((UnresolvedRelation) node).isStreaming()) return node;
      UnresolvedRelation relation = (UnresolvedRelation) node;
      Seq parts = relation.multipartIdentifier();
      if (parts.size() != 2 || !MosaicSource.FORMAT.equalsIgnoreCase((String) parts.head())) return node;
      // A table of that name comes first, as with Spark's own formats.
      SessionCatalog catalog = session.sessionState().catalog();
      String database = (String) parts.head();
      String path = (String) parts.last();
      if (catalog.databaseExists(database) && catalog.tableExists(new TableIdentifier(path, Option.apply(database)))) return node;
      Dataset table = (Dataset) session.read().format(MosaicSource.FORMAT)
          .options(relation.options().asCaseSensitiveMap()).load(path);
      return table.queryExecution().analyzed();
    }
  }

  /** Comments of tables, for spark.catalog, which only resolves names. Statements has them for all else. */
  static final class ShowComments extends PartRule {
    ShowComments(SparkSession session) {
      super(session);
    }

    public TreeNode apply(TreeNode plan) {
      return plan.transformDown(changes);
    }

    Object change(Object node) {
      Statements.showComment(session, node);
      return node;
    }
  }
}
