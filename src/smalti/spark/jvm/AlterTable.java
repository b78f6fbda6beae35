package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.ResolvedFieldPosition;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.AddColumns;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.QualifiedColType;
import org.apache.spark.sql.catalyst.plans.logical.RecoverPartitions;
import org.apache.spark.sql.catalyst.plans.logical.RefreshTable;
import org.apache.spark.sql.catalyst.plans.logical.RepairTable;
import org.apache.spark.sql.catalyst.plans.logical.UnaryCommand;
import org.apache.spark.sql.connector.catalog.CatalogV2Util$;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * ALTER TABLE, as it is for tables of Spark's own formats. For ours, Spark's session catalog would take changes that the
 * files cannot follow, and it fails with an internal error where the partition columns are not the last ones.
 */
final class AlterTable {
  private AlterTable() {}

  /** The node that takes the place of a node of a plan: the node itself if it changes no Mosaic table. */
  static Object change(Object node) {
    boolean alters = (node instanceof AlterTableCommand || node instanceof RecoverPartitions || node instanceof RepairTable)
        && ((LogicalPlan) node).resolved() && ((UnaryCommand) node).child() instanceof ResolvedTable
        && table(node) instanceof MosaicTable;
    if (!alters) return node;
    boolean isPartitioned = ((MosaicTable) table(node)).partitioning().length > 0;
    if (!(node instanceof AlterTableCommand)) {
      // The directories are the partitions, so that there is nothing to repair but what Spark has cached.
      return isPartitioned ? new RefreshTable((LogicalPlan) ((UnaryCommand) node).child()) : node;
    }
    AlterTableCommand command = (AlterTableCommand) node;
    MosaicTable table = (MosaicTable) table(node);
    Map<String, TableChange.RenameColumn> renamed = new LinkedHashMap<String, TableChange.RenameColumn>();
    boolean columns = false;
    for (Object change : CollectionConverters.asJava(command.changes())) {
      columns = columns || change instanceof TableChange.ColumnChange;
      if (change instanceof TableChange.RenameColumn)
        renamed.put(((TableChange.RenameColumn) change).fieldNames()[0], (TableChange.RenameColumn) change);
      if (change instanceof TableChange.ClusterBy) table.refuse("CLUSTER BY: files are not written in that order");
      if (node instanceof AddColumns && change instanceof TableChange.AddColumn && !((TableChange.AddColumn) change).isNullable())
        table.refuse("ADD COLUMN .. NOT NULL: rows that are there already have nulls");
    }
    if (!columns) return node;
    AlterTableCommand changed = isPartitioned && command instanceof AddColumns ? beforePartitions((AddColumns) command, table) : command;
    StructType schema = CatalogV2Util$.MODULE$.applySchemaChanges(table.schema(), changed.changes(),
        Option.apply(MosaicSource.FORMAT), "ALTER TABLE");
    if (isPartitioned) checkPartitionsLast(schema, table);
    checkFollowed(schema, renamed, table);
    return changed;
  }

  private static Object table(Object node) {
    return ((ResolvedTable) ((UnaryCommand) node).child()).table();
  }

  private static void checkPartitionsLast(StructType schema, MosaicTable table) {
    List<String> partitions = Arrays.asList(table.partitionNames());
    List<String> names = Arrays.asList(schema.fieldNames());
    int data = names.size() - partitions.size();
    if (data < 1 || !names.subList(data, names.size()).equals(partitions))
      table.refuse("ALTER TABLE to columns " + String.join(", ", names) + ": Spark wants the partition columns, "
          + String.join(", ", partitions) + ", at the end, after at least one other");
  }

  /** The catalog may only follow the files: these must not have a renamed column, and fit types that are new. */
  private static void checkFollowed(StructType schema, Map<String, TableChange.RenameColumn> renamed, MosaicTable table) {
    StructType retyped = new StructType();
    for (StructField field : schema.fields()) {
      Option old = table.schema().getFieldIndex(field.name());
      if (old.isEmpty() || !table.schema().fields()[((Integer) old.get()).intValue()].dataType().equals(field.dataType()))
        retyped = retyped.add(field);
    }
    if (renamed.isEmpty() && retyped.isEmpty()) return;
    List<String[]> paths = new ArrayList<String[]>();
    for (TableChange.RenameColumn each : renamed.values()) paths.add(each.fieldNames());
    Map<String, Object> unfit = table.unfit(paths, retyped);
    for (Map.Entry<String, Object> column : unfit.entrySet()) {
      String name = (String) column.getKey();
      TableChange.RenameColumn renaming = (TableChange.RenameColumn) renamed.get(name);
      boolean hasJob = renaming != null && renaming.fieldNames().length == 1;
      String job = hasJob ? table.job("rename_columns", "{" + Options.json(name) + ": " + Options.json(renaming.newName()) + "}")
          : table.job("replace_columns", "rows");
      String reason = renaming != null ? "RENAME COLUMN: files keep the name that a column had when they were written"
          : "ALTER TABLE to column " + name + " " + schema.apply(name).dataType().sql() + ": files have " + column.getValue();
      table.refuse(reason + ". Run " + job + ", then repeat the statement");
    }
  }

  private static AddColumns beforePartitions(AddColumns command, MosaicTable table) {
    String last = table.schema().fieldNames()[table.schema().size() - table.partitionNames().length - 1];
    List<Object> placed = new ArrayList<Object>();
    for (Object column : CollectionConverters.asJava(command.columnsToAdd())) {
      Seq name = ((QualifiedColType) column).name();
      boolean anywhere = name.size() == 1 && ((QualifiedColType) column).position().isEmpty();
      placed.add(anywhere ? placed((Product) column, TableChange.ColumnPosition.after(last)) : column);
      if (anywhere) last = (String) name.head();
    }
    return new AddColumns(command.table(), CollectionConverters.asScala(placed).toList());
  }

  /** A column with a position. What else a column has differs among versions of Spark. */
  private static Object placed(Product column, TableChange.ColumnPosition position) {
    Object[] parts = new Object[column.productArity()];
    for (int index = 0; index < parts.length; index++)
      parts[index] = "position".equals(column.productElementName(index))
          ? Option.apply(new ResolvedFieldPosition(position)) : column.productElement(index);
    try {
      return column.getClass().getConstructors()[0].newInstance(parts);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
