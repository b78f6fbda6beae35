package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
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
    for (Object change : CollectionConverters.asJava(command.changes())) {
      if (change instanceof TableChange.RenameColumn)
        MosaicSource.refuse("RENAME COLUMN: files keep the name that a column had when they were written");
      if (change instanceof TableChange.ClusterBy) MosaicSource.refuse("CLUSTER BY: files are not written in that order");
      if (node instanceof AddColumns && change instanceof TableChange.AddColumn && !((TableChange.AddColumn) change).isNullable())
        MosaicSource.refuse("ADD COLUMN .. NOT NULL: rows that are there already have nulls");
    }
    return isPartitioned ? partitionsLast(command, (MosaicTable) table(node)) : node;
  }

  private static Object table(Object node) {
    return ((ResolvedTable) ((UnaryCommand) node).child()).table();
  }

  /** The command, with new columns before the partition columns. */
  private static Object partitionsLast(AlterTableCommand command, MosaicTable table) {
    AlterTableCommand changed = command instanceof AddColumns ? beforePartitions((AddColumns) command, table) : command;
    List<String> partitions = Arrays.asList(table.partitionNames());
    boolean columns = false;
    for (Object change : CollectionConverters.asJava(changed.changes()))
      columns = columns || change instanceof TableChange.ColumnChange;
    if (!columns) return changed;
    StructType schema = CatalogV2Util$.MODULE$.applySchemaChanges(table.schema(), changed.changes(),
        Option.apply(MosaicSource.FORMAT), "ALTER TABLE");
    List<String> names = Arrays.asList(schema.fieldNames());
    int data = names.size() - partitions.size();
    if (data < 1 || !names.subList(data, names.size()).equals(partitions))
      MosaicSource.refuse("ALTER TABLE to columns " + String.join(", ", names) + ": Spark wants the partition columns, "
          + String.join(", ", partitions) + ", at the end, after at least one other");
    return changed;
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
