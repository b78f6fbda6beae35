package smalti.spark.jvm;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SetTableProperties;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager$;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.command.InsertIntoDataSourceDirCommand;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.internal.SQLConf;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * What SQL allows for Spark's file formats only: SELECT .. FROM mosaic.`path`, INSERT OVERWRITE DIRECTORY, CREATE TABLE ..
 * LIKE, comments of tables, and ALTER TABLE as it is for them. And writes from batches in columns, see ColumnarInput.
 *
 * Spark refuses names of other formats in the step that resolves names, so one rule comes before it, in the place of
 * rules for hints. Spark finds this class when a session is made, by META-INF/services.
 */
public class MosaicExtensions extends AbstractFunction1 implements SparkSessionExtensionsProvider {
  public Object apply(Object extensions) {
    ((SparkSessionExtensions) extensions).injectHintResolutionRule(new MakePathRule());
    ((SparkSessionExtensions) extensions).injectPostHocResolutionRule(new MakeDirectoryRule());
    ((SparkSessionExtensions) extensions).injectPostHocResolutionRule(new MakeLikeRule());
    ((SparkSessionExtensions) extensions).injectPostHocResolutionRule(new MakeCommentRule());
    ((SparkSessionExtensions) extensions).injectPostHocResolutionRule(new MakeAlterRule());
    ((SparkSessionExtensions) extensions).injectColumnar(new MakeColumnarRule());
    return BoxedUnit.UNIT;
  }

  public static class MakeColumnarRule extends AbstractFunction1 {
    public Object apply(Object session) {
      return new ColumnarInput((SparkSession) session);
    }
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
      return new Everywhere(new WriteDirectory());
    }
  }

  /** A rule that changes every part of a plan that a function is defined at. */
  public static class Everywhere extends Rule {
    private final AbstractPartialFunction change;

    Everywhere(AbstractPartialFunction change) {
      this.change = change;
    }

    public TreeNode apply(TreeNode plan) {
      return plan.transformDown(change);
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
          immutable(options),
          command.overwrite() ? SaveMode.Overwrite : SaveMode.ErrorIfExists);
    }
  }

  public static class MakeLikeRule extends AbstractFunction1 {
    public Object apply(Object session) {
      return new Everywhere(new CreateLike((SparkSession) session));
    }
  }

  /**
   * CREATE TABLE .. LIKE. Since 4.2 Spark asks its session catalog to copy a table of our kind, which it cannot; the
   * command that copies tables of files can. The copy is marked as a table of ours, which is how Options knows it.
   */
  public static class CreateLike extends AbstractPartialFunction {
    private static final String ASKED = "org.apache.spark.sql.catalyst.plans.logical.CreateTableLike"; // not in 4.1
    private final SparkSession session;

    CreateLike(SparkSession session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      if (node instanceof CreateTableLikeCommand) {
        CreateTableLikeCommand command = (CreateTableLikeCommand) node;
        if (command.properties().contains(TableCatalog.PROP_PROVIDER)) return false;
        Option provider = command.provider().isDefined() ? command.provider()
            : session.sessionState().catalog().getTempViewOrPermanentTableMetadata(command.sourceTable()).provider();
        return provider.isDefined() && MosaicSource.FORMAT.equalsIgnoreCase((String) provider.get());
      }
      if (!ASKED.equals(node.getClass().getName())) return false;
      Product like = (Product) node;
      return like.productElement(0) instanceof ResolvedIdentifier && like.productElement(1) instanceof ResolvedTable
          && ((ResolvedTable) like.productElement(1)).table() instanceof MosaicTable
          && ((ResolvedIdentifier) like.productElement(0)).catalog().name().equals(CatalogManager$.MODULE$.SESSION_CATALOG_NAME())
          && ((Option) like.productElement(4)).isEmpty();
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      if (node instanceof CreateTableLikeCommand) {
        CreateTableLikeCommand command = (CreateTableLikeCommand) node;
        return like(command.targetTable(), command.sourceTable(), command.fileFormat(), command.provider(),
            command.properties(), command.ifNotExists());
      }
      Product like = (Product) node;
      ResolvedTable source = (ResolvedTable) like.productElement(1);
      Option location = (Option) like.productElement(2);
      Map<String, String> storage = new LinkedHashMap<String, String>();
      if (location.isDefined()) storage.put("path", (String) location.get());
      Map<String, String> properties = new LinkedHashMap<String, String>();
      for (Map.Entry<String, String> entry : ((Map<String, String>) source.table().properties()).entrySet())
        if (((String) entry.getKey()).startsWith(TableCatalog.OPTION_PREFIX)) properties.put(entry.getKey(), entry.getValue());
      properties.putAll((Map<String, String>) CollectionConverters.asJava((scala.collection.immutable.Map) like.productElement(5)));
      return like(identifier(((ResolvedIdentifier) like.productElement(0)).identifier()), identifier(source.identifier()),
          DataSource.buildStorageFormatFromOptions(immutable(storage)), (Option) like.productElement(3), immutable(properties), ((Boolean) like.productElement(6)).booleanValue());
    }

    private static CreateTableLikeCommand like(TableIdentifier target, TableIdentifier source, CatalogStorageFormat storage,
        Option provider, scala.collection.immutable.Map properties, boolean ifNotExists) {
      Map<String, String> marked = new LinkedHashMap<String, String>((Map<String, String>) CollectionConverters.asJava(properties));
      marked.put(TableCatalog.PROP_PROVIDER, provider.isDefined() ? (String) provider.get() : MosaicSource.FORMAT);
      return new CreateTableLikeCommand(target, source, storage, provider, immutable(marked), ifNotExists);
    }
  }

  public static class MakeCommentRule extends AbstractFunction1 {
    public Object apply(Object session) {
      return new Everywhere(new KeepComment((SparkSession) session));
    }
  }

  /** Spark's session catalog keeps the comment of a table to itself, and loses it when properties are set. */
  public static class KeepComment extends AbstractPartialFunction {
    private final SparkSession session;

    KeepComment(SparkSession session) {
      this.session = session;
    }

    public boolean isDefinedAt(Object node) {
      if (node instanceof SetTableProperties && ((SetTableProperties) node).properties().contains(TableCatalog.PROP_COMMENT))
        return false;
      Object table = node instanceof SetTableProperties ? ((SetTableProperties) node).table() : node;
      return table instanceof ResolvedTable && ((ResolvedTable) table).table() instanceof MosaicTable && comment(table) != null;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      if (node instanceof ResolvedTable) {
        ((MosaicTable) ((ResolvedTable) node).table()).setComment(comment(node));
        return node;
      }
      SetTableProperties command = (SetTableProperties) node;
      Map<String, String> properties = new LinkedHashMap<String, String>(
          (Map<String, String>) CollectionConverters.asJava(command.properties()));
      properties.put(TableCatalog.PROP_COMMENT, comment(command.table()));
      return new SetTableProperties(command.table(), immutable(properties));
    }

    private String comment(Object table) {
      ResolvedTable resolved = (ResolvedTable) table;
      if (!resolved.catalog().name().equals(CatalogManager$.MODULE$.SESSION_CATALOG_NAME())) return null;
      Option comment = session.sessionState().catalog().getTempViewOrPermanentTableMetadata(identifier(resolved.identifier())).comment();
      return comment.isDefined() ? (String) comment.get() : null;
    }
  }

  public static class MakeAlterRule extends AbstractFunction1 {
    public Object apply(Object session) {
      return new Everywhere(new AlterTable());
    }
  }

  private static TableIdentifier identifier(Identifier given) {
    return new TableIdentifier(given.name(), Option.apply(given.namespace()[0]));
  }

  private static scala.collection.immutable.Map immutable(Map<String, String> given) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(given));
  }
}
