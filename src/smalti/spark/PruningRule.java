package smalti.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonFilterPushdownResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.Option;
import scala.Some;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Gives Spark's own push-down what the Python data source lacks: columns to prune, and a source object per scan.
 *
 * Compiled by Janino in the driver (see smalti/spark/pruning.py), so: no generics, no lambdas. The rule only swaps the
 * table of Mosaic relations; Spark's optimizer then finds a scan builder that takes columns and filters, and does the
 * rest. A relation that has been swapped is left alone, so the rule may run, or be installed, any number of times.
 * Sessions of one application share rules: the setting says which of them asked for it.
 */
public class PruningRule extends AbstractFunction1 {
  static final String FORMAT = "mosaic";
  static final String OWN_SCAN = "smalti.ownscan";
  static final String SETTING = "spark.smalti.pruning";

  /** What SparkSessionExtensions calls: a session in, a rule out. */
  public Object apply(Object session) {
    return new SwapTables();
  }

  public static class SwapTables extends Rule {
    public TreeNode apply(TreeNode plan) {
      boolean enabled = "true".equals(SQLConf.get().getConfString(SETTING, "false"));
      return enabled ? plan.transformDown(new SwapTable()) : plan;
    }
  }

  public static class SwapTable extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (!(node instanceof DataSourceV2Relation)) return false;
      Object table = ((DataSourceV2Relation) node).table();
      return table.getClass() == PythonTable.class && FORMAT.equalsIgnoreCase(((PythonTable) table).name());
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      PrunableTable table = new PrunableTable(relation.table().schema(), relation.options());
      return relation.copy(table, relation.output(), relation.catalog(), relation.identifier(), relation.options(),
          relation.timeTravelSpec());
    }
  }

  static PythonDataSourceV2 newSource() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(FORMAT);
    return source;
  }

  /** Two are equal if they read the same: path and options, and the schema. */
  public static class PrunableTable extends PythonTable {
    private final StructType full;
    private final CaseInsensitiveStringMap given;

    public PrunableTable(StructType schema, CaseInsensitiveStringMap options) {
      super(newSource(), FORMAT, schema);
      this.full = schema;
      this.given = options;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      Map marked = new HashMap(options.asCaseSensitiveMap());
      marked.put(OWN_SCAN, "true");
      return new PrunableScanBuilder(full, new CaseInsensitiveStringMap(marked));
    }

    public boolean equals(Object other) {
      return other instanceof PrunableTable && full.equals(((PrunableTable) other).full)
          && given.equals(((PrunableTable) other).given);
    }

    public int hashCode() {
      return Objects.hash(new Object[] {full, given});
    }
  }

  /** Collects columns and filters, and makes the scan with a source of its own. All filters stay with Spark too. */
  public static class PrunableScanBuilder implements SupportsPushDownFilters, SupportsPushDownRequiredColumns {
    private final CaseInsensitiveStringMap options;
    private StructType required;
    private Filter[] filters = new Filter[0];

    public PrunableScanBuilder(StructType schema, CaseInsensitiveStringMap options) {
      this.required = schema;
      this.options = options;
    }

    public Filter[] pushFilters(Filter[] offered) {
      this.filters = offered;
      return offered;
    }

    public Filter[] pushedFilters() {
      return new Filter[0];
    }

    public void pruneColumns(StructType columns) {
      this.required = columns;
    }

    public Scan build() {
      PythonDataSourceV2 source = newSource();
      if (filters.length > 0) {
        Option result = source.source().pushdownFiltersInPython(
            source.getOrCreateDataSourceInPython(FORMAT, options, new Some(required)), required, filters);
        if (result.isDefined()) source.setReadInfo(((PythonFilterPushdownResult) result.get()).readInfo());
      }
      return new PythonScan(source, FORMAT, required, options, new Filter[0]);
    }
  }
}
