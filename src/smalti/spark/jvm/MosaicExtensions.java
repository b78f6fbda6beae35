package smalti.spark.jvm;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * SELECT .. FROM mosaic.`path`. Spark resolves such names for its file formats only, and refuses others in the same
 * step. So a rule comes before it: rules for hints run before names are resolved. Spark finds this class when a session
 * is made, by META-INF/services.
 */
public class MosaicExtensions extends AbstractFunction1 implements SparkSessionExtensionsProvider {
  public Object apply(Object extensions) {
    ((SparkSessionExtensions) extensions).injectHintResolutionRule(new MakeRule());
    return BoxedUnit.UNIT;
  }

  public static class MakeRule extends AbstractFunction1 {
    public Object apply(Object session) {
      return new ResolvePaths((SparkSession) session);
    }
  }

  public static class ResolvePaths extends Rule {
    private final SparkSession session;

    ResolvePaths(SparkSession session) {
      this.session = session;
    }

    public TreeNode apply(TreeNode plan) {
      if (!SQLConf.get().runSQLonFile()) return plan;
      return ((LogicalPlan) plan).transformDownWithSubqueries(new ResolvePath(session));
    }
  }

  public static class ResolvePath extends AbstractPartialFunction {
    private final SparkSession session;

    ResolvePath(SparkSession session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      if (!(node instanceof UnresolvedRelation) || ((UnresolvedRelation) node).isStreaming()) return false;
      Seq parts = ((UnresolvedRelation) node).multipartIdentifier();
      if (parts.size() != 2 || !MosaicSource.FORMAT.equalsIgnoreCase((String) parts.head())) return false;
      // A table of that name comes first, as with Spark's own formats.
      SessionCatalog catalog = session.sessionState().catalog();
      String database = (String) parts.head();
      return !(catalog.databaseExists(database) && catalog.tableExists(new TableIdentifier((String) parts.last(), Option.apply(database))));
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      UnresolvedRelation relation = (UnresolvedRelation) node;
      Dataset table = (Dataset) session.read().format(MosaicSource.FORMAT)
          .options(relation.options().asCaseSensitiveMap()).load((String) relation.multipartIdentifier().last());
      return table.queryExecution().analyzed();
    }
  }
}
