package smalti.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.*;
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
 * An optimizer rule that lets Spark push columns down to the Python data source, and gives every scan its own source.
 *
 * The rule only replaces the table of each Mosaic relation. Spark's own optimizer then finds a scan builder that accepts
 * columns and filters, and does the rest. A relation whose table was replaced is left alone, so the rule may run, or be
 * installed, any number of times. All sessions of an application share their rules, so a setting of the session says
 * whether the rule does anything. Janino compiles this text in the driver (see smalti/spark/pruning.py); it knows no
 * generics and no lambdas.
 */
public class PruningRule extends AbstractFunction1 {
  static final String FORMAT = "mosaic";
  static final String OWN_SCAN = "smalti.ownscan";
  static final String SETTING = "spark.smalti.pruning";

  /** SparkSessionExtensions calls this with a session, and expects a rule. */
  public Object apply(Object session) {
    return new ReplaceTables();
  }

  public static class ReplaceTables extends Rule {
    public TreeNode apply(TreeNode plan) {
      boolean enabled = "true".equals(SQLConf.get().getConfString(SETTING, "false"));
      return enabled ? plan.transformDown(new ReplaceTable()) : plan;
    }
  }

  public static class ReplaceTable extends AbstractPartialFunction {
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

  /** A table whose scans can be pruned. Two are equal if they read the same: with equal options (the path is one of
   * them) and an equal schema. */
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

  /** Collects the columns and filters of one scan, which gets a source of its own. Spark applies all filters again. */
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
