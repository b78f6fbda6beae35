package smalti.spark.jvm;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SetTableProperties;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager$;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.command.InsertIntoDataSourceDirCommand;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Statements that Spark carries out for its own file formats only: INSERT OVERWRITE DIRECTORY, CREATE TABLE .. LIKE,
 * comments of tables, and ALTER TABLE as it is for these formats. Those that files cannot follow are refused by name.
 *
 * A command is optimized before it runs, and a session takes up rules for the optimizer at any time. So this rule is in
 * every session that has loaded a table of ours, however the jar came there: `install` is called for each table. A stream
 * is optimized before each of its batches, so the rule also says which columns the batch has.
 */
public final class Statements extends PartRule {
  private static final String LIKE = "org.apache.spark.sql.catalyst.plans.logical.CreateTableLike"; // not in 4.1

  private Statements(SparkSession session) {
    super(session);
  }

  /** Add the rule to a session, and our format to those that may have a DEFAULT, unless that was done. */
  public static synchronized void install(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    for (Object rule : CollectionConverters.asJava(methods.extraOptimizations()))
      if (rule instanceof Statements) return;
    methods.extraOptimizations_$eq((Seq) methods.extraOptimizations().appended(new Statements(session)));
    SQLConf conf = session.sessionState().conf();
    String key = SQLConf$.MODULE$.DEFAULT_COLUMN_ALLOWED_PROVIDERS().key();
    conf.setConfString(key, conf.getConfString(key) + "," + MosaicSource.FORMAT);
  }

  public TreeNode apply(TreeNode plan) {
    return plan.transformDown(changes);
  }

  Object change(Object node) {
    if (node instanceof InsertIntoDataSourceDirCommand) return writeDirectory((InsertIntoDataSourceDirCommand) node);
    if (node instanceof CreateTableLikeCommand) return createLike((CreateTableLikeCommand) node);
    if (LIKE.equals(node.getClass().getName())) return createLike((Product) node);
    if (node instanceof StreamingDataSourceV2ScanRelation) pruneColumns((StreamingDataSourceV2ScanRelation) node);
    showComment(session, node);
    refuseRows(node);
    return AlterTable.change(node instanceof SetTableProperties ? keepComment((SetTableProperties) node) : node);
  }

  /** The columns of a stream, the hidden one among them: Spark before 4.2.1 does not say which (SPARK-56132). */
  private static void pruneColumns(StreamingDataSourceV2ScanRelation stream) {
    if (stream.scan() instanceof MosaicScan) ((MosaicScan) stream.scan()).pruneColumns(stream.schema());
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
    String comment = isResolved ? comment(session, (ResolvedTable) command.table()) : null;
    if (comment == null) return command;
    Map<String, String> properties = Options.toJava(command.properties());
    properties.put(TableCatalog.PROP_COMMENT, comment);
    return new SetTableProperties(command.table(), Options.toScala(properties));
  }

  /** Tell a table of ours the comment that the session catalog has of it. */
  static void showComment(SparkSession session, Object node) {
    String comment = node instanceof ResolvedTable ? comment(session, (ResolvedTable) node) : null;
    if (comment != null) ((MosaicTable) ((ResolvedTable) node).table()).setComment(comment);
  }

  /** The comment that the session catalog has of a table of ours; null if there is none. */
  private static String comment(SparkSession session, ResolvedTable table) {
    boolean isOurs = table.table() instanceof MosaicTable
        && table.catalog().name().equals(CatalogManager$.MODULE$.SESSION_CATALOG_NAME());
    if (!isOurs) return null;
    Option comment = session.sessionState().catalog().getTempViewOrPermanentTableMetadata(identifier(table.identifier())).comment();
    return comment.isDefined() ? (String) comment.get() : null;
  }

  private static TableIdentifier identifier(Identifier given) {
    return new TableIdentifier(given.name(), Option.apply(given.namespace()[0]));
  }

  /** Changes of rows, which Spark would refuse with nothing but their name. */
  private static void refuseRows(Object node) {
    if (node instanceof DeleteFromTable && !((DeleteFromTable) node).condition().equals(Literal.TrueLiteral()))
      refuseRows(((DeleteFromTable) node).table(), "DELETE .. WHERE", "delete", "where");
    if (node instanceof UpdateTable) refuseRows(((UpdateTable) node).table(), "UPDATE", "update", "{column: value}, where");
    if (node instanceof MergeIntoTable) refuseRows(((MergeIntoTable) node).targetTable(), "MERGE INTO", "merge", "rows, on=key");
  }

  /** By now the target is what a query of it would read. */
  private static void refuseRows(LogicalPlan target, String statement, String job, String arguments) {
    for (Object leaf : CollectionConverters.asJava(target.collectLeaves())) {
      DataSourceV2Relation relation = leaf instanceof DataSourceV2ScanRelation
          ? ((DataSourceV2ScanRelation) leaf).relation() : leaf instanceof DataSourceV2Relation ? (DataSourceV2Relation) leaf : null;
      if (relation == null || !(relation.table() instanceof MosaicTable)) continue;
      MosaicTable table = (MosaicTable) relation.table();
      table.refuse(statement + ", which is a job: " + table.job(job, arguments));
    }
  }
}
