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
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Statements that SQL allows for Spark's file formats only: SELECT .. FROM mosaic.`path`, INSERT OVERWRITE DIRECTORY,
 * CREATE TABLE .. LIKE, comments of tables, and ALTER TABLE as it is for these formats. And writes from batches in
 * columns, see ColumnarInput.
 *
 * Spark refuses names of other formats in the step that resolves names, so one rule comes before it, in the place of
 * rules for hints. Spark finds this class when a session is made, by META-INF/services.
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
        return new ChangeCommands((SparkSession) session);
      }
    });
    given.injectColumnar(new AbstractFunction1() {
      public Object apply(Object session) {
        return new ColumnarInput();
      }
    });
    return BoxedUnit.UNIT;
  }

  /** A rule that is asked about every part of a plan. */
  abstract static class PartRule extends Rule {
    final SparkSession session;
    /** `change` in the form that Spark's walks over plans take. */
    final AbstractPartialFunction changes = new AbstractPartialFunction() {
      public boolean isDefinedAt(Object node) {
        return true;
      }

      public Object applyOrElse(Object node, Function1 otherwise) {
        return change(node);
      }
    };

    PartRule(SparkSession session) {
      this.session = session;
    }

    /** The node that takes the place of a node. */
    abstract Object change(Object node);
  }

  /** SELECT .. FROM mosaic.`path`. */
  static final class ResolvePaths extends PartRule {
    ResolvePaths(SparkSession session) {
      super(session);
    }

    public TreeNode apply(TreeNode plan) {
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

  /** Commands, once the names in them are resolved. */
  static final class ChangeCommands extends PartRule {
    private static final String LIKE = "org.apache.spark.sql.catalyst.plans.logical.CreateTableLike"; // not in 4.1

    ChangeCommands(SparkSession session) {
      super(session);
    }

    public TreeNode apply(TreeNode plan) {
      return plan.transformDown(changes);
    }

    Object change(Object node) {
      if (node instanceof InsertIntoDataSourceDirCommand) return writeDirectory((InsertIntoDataSourceDirCommand) node);
      if (node instanceof CreateTableLikeCommand) return createLike((CreateTableLikeCommand) node);
      if (LIKE.equals(node.getClass().getName())) return createLike((Product) node);
      if (node instanceof ResolvedTable && comment((ResolvedTable) node) != null)
        ((MosaicTable) ((ResolvedTable) node).table()).setComment(comment((ResolvedTable) node));
      return AlterTable.change(node instanceof SetTableProperties ? keepComment((SetTableProperties) node) : node);
    }

    /** INSERT OVERWRITE DIRECTORY becomes what df.write becomes. */
    private static Object writeDirectory(InsertIntoDataSourceDirCommand command) {
      Option location = command.storage().locationUri();
      if (!MosaicSource.FORMAT.equalsIgnoreCase(command.provider()) || location.isEmpty()) return command;
      Map<String, String> options = Options.toJava(command.storage().properties());
      options.put("path", location.get().toString());
      return new SaveIntoDataSourceCommand(command.query(), new MosaicSource(), Options.toScala(options),
          command.overwrite() ? SaveMode.Overwrite : SaveMode.ErrorIfExists);
    }

    /** CREATE TABLE .. LIKE. The copy is marked as a table of ours, which is how Options knows it. */
    private Object createLike(CreateTableLikeCommand command) {
      if (command.properties().contains(TableCatalog.PROP_PROVIDER)) return command;
      Option provider = command.provider().isDefined() ? command.provider()
          : session.sessionState().catalog().getTempViewOrPermanentTableMetadata(command.sourceTable()).provider();
      if (!provider.isDefined() || !MosaicSource.FORMAT.equalsIgnoreCase((String) provider.get())) return command;
      Map<String, String> marked = Options.toJava(command.properties());
      marked.put(TableCatalog.PROP_PROVIDER, command.provider().isDefined() ? (String) provider.get() : MosaicSource.FORMAT);
      return new CreateTableLikeCommand(command.targetTable(), command.sourceTable(), command.fileFormat(),
          command.provider(), Options.toScala(marked), command.ifNotExists());
    }

    /**
     * The same since Spark 4.2, which asks its session catalog to copy a table of our kind. The catalog cannot; the command
     * that copies tables of files can.
     */
    private Object createLike(Product like) {
      boolean isOurs = like.productElement(0) instanceof ResolvedIdentifier && like.productElement(1) instanceof ResolvedTable
          && ((ResolvedTable) like.productElement(1)).table() instanceof MosaicTable
          && ((ResolvedIdentifier) like.productElement(0)).catalog().name().equals(CatalogManager$.MODULE$.SESSION_CATALOG_NAME())
          && ((Option) like.productElement(4)).isEmpty();
      if (!isOurs) return like;
      ResolvedTable source = (ResolvedTable) like.productElement(1);
      Option location = (Option) like.productElement(2);
      Map<String, String> storage = new LinkedHashMap<String, String>();
      if (location.isDefined()) storage.put("path", (String) location.get());
      Map<String, String> properties = new LinkedHashMap<String, String>();
      for (Map.Entry<String, String> entry : ((Map<String, String>) source.table().properties()).entrySet())
        if (((String) entry.getKey()).startsWith(TableCatalog.OPTION_PREFIX)) properties.put(entry.getKey(), entry.getValue());
      properties.putAll(Options.toJava((scala.collection.immutable.Map) like.productElement(5)));
      Option provider = (Option) like.productElement(3);
      properties.put(TableCatalog.PROP_PROVIDER, provider.isDefined() ? (String) provider.get() : MosaicSource.FORMAT);
      return new CreateTableLikeCommand(identifier(((ResolvedIdentifier) like.productElement(0)).identifier()),
          identifier(source.identifier()), DataSource.buildStorageFormatFromOptions(Options.toScala(storage)), provider,
          Options.toScala(properties), ((Boolean) like.productElement(6)).booleanValue());
    }

    /** Spark's session catalog keeps the comment of a table to itself, and loses it when properties are set. */
    private Object keepComment(SetTableProperties command) {
      boolean isResolved = command.table() instanceof ResolvedTable && !command.properties().contains(TableCatalog.PROP_COMMENT);
      String comment = isResolved ? comment((ResolvedTable) command.table()) : null;
      if (comment == null) return command;
      Map<String, String> properties = Options.toJava(command.properties());
      properties.put(TableCatalog.PROP_COMMENT, comment);
      return new SetTableProperties(command.table(), Options.toScala(properties));
    }

    /** The comment that the session catalog has of a table of ours; null if there is none. */
    private String comment(ResolvedTable table) {
      boolean isOurs = table.table() instanceof MosaicTable
          && table.catalog().name().equals(CatalogManager$.MODULE$.SESSION_CATALOG_NAME());
      if (!isOurs) return null;
      Option comment = session.sessionState().catalog().getTempViewOrPermanentTableMetadata(identifier(table.identifier())).comment();
      return comment.isDefined() ? (String) comment.get() : null;
    }

    private static TableIdentifier identifier(Identifier given) {
      return new TableIdentifier(given.name(), Option.apply(given.namespace()[0]));
    }
  }
}
