package smalti.spark.jvm;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.SaveMode;
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
import org.apache.spark.sql.execution.command.InsertIntoDataSourceDirCommand;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.internal.SQLConf;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * What SQL allows for Spark's file formats only: SELECT .. FROM mosaic.`path`, and INSERT OVERWRITE DIRECTORY.
 *
 * Spark refuses names of other formats in the step that resolves names, so one rule comes before it, in the place of
 * rules for hints. Spark finds this class when a session is made, by META-INF/services.
 */
public class MosaicExtensions extends AbstractFunction1 implements SparkSessionExtensionsProvider {
  public Object apply(Object extensions) {
    ((SparkSessionExtensions) extensions).injectHintResolutionRule(new MakePathRule());
    ((SparkSessionExtensions) extensions).injectPostHocResolutionRule(new MakeDirectoryRule());
    return BoxedUnit.UNIT;
  }

  public static class MakePathRule extends AbstractFunction1 {
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

  public static class MakeDirectoryRule extends AbstractFunction1 {
    public Object apply(Object session) {
      return new WriteDirectories();
    }
  }

  public static class WriteDirectories extends Rule {
    public TreeNode apply(TreeNode plan) {
      return plan.transformDown(new WriteDirectory());
    }
  }

  /** INSERT OVERWRITE DIRECTORY becomes what df.write becomes. */
  public static class WriteDirectory extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof InsertIntoDataSourceDirCommand
          && MosaicSource.FORMAT.equalsIgnoreCase(((InsertIntoDataSourceDirCommand) node).provider())
          && ((InsertIntoDataSourceDirCommand) node).storage().locationUri().isDefined();
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      InsertIntoDataSourceDirCommand command = (InsertIntoDataSourceDirCommand) node;
      Map<String, String> options = new LinkedHashMap<String, String>(
          (Map<String, String>) CollectionConverters.asJava(command.storage().properties()));
      options.put("path", command.storage().locationUri().get().toString());
      return new SaveIntoDataSourceCommand(command.query(), new MosaicSource(),
          scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options)),
          command.overwrite() ? SaveMode.Overwrite : SaveMode.ErrorIfExists);
    }
  }
}
