package smalti.spark.jvm;

import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;

/** Collects what one scan is asked for. Filters and limits only say what need not be read: Spark applies them again. */
public class MosaicScanBuilder
    implements SupportsPushDownFilters, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final MosaicTable table;
  private final Snapshot given;
  private final StructType full;
  private StructType required;
  private Filter[] filters = new Filter[0];
  private int limit = -1;

  MosaicScanBuilder(StructType schema, Snapshot given, MosaicTable table) {
    this.full = schema;
    this.required = schema;
    this.given = given;
    this.table = table;
  }

  public Filter[] pushFilters(Filter[] offered) {
    filters = offered;
    return offered;
  }

  public Filter[] pushedFilters() {
    return new Filter[0];
  }

  public void pruneColumns(StructType columns) {
    required = columns;
  }

  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  public boolean isPartiallyPushed() {
    return true;
  }

  public Scan build() {
    return new MosaicScan(table, given, full, required, filters, limit);
  }
}
