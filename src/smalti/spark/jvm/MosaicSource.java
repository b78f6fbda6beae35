package smalti.spark.jvm;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.util.SchemaUtils;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * format("mosaic"): the provider that Spark finds by META-INF/services. What files a table has, which of them are read and
 * what a write does is asked of Python.
 *
 * Janino compiles these files (see smalti/spark/setup/jar.py): they do without lambdas, inferred type arguments and patterns.
 */
public class MosaicSource implements TableProvider, DataSourceRegister, CreatableRelationProvider, StreamSinkProvider {
  static final String FORMAT = "mosaic";
  /** Writes that have begun, for the tables that Spark asks for while it runs them. */
  private static final Map<String, MosaicWrite> WRITES = new ConcurrentHashMap<String, MosaicWrite>();
  /** What inferSchema has listed, for the table that Spark asks this same object for right afterwards. */
  private Snapshot listed;

  public String shortName() {
    return FORMAT;
  }

  public boolean supportsExternalMetadata() {
    return true;
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    listed = new Snapshot(Options.forPython(options.asCaseSensitiveMap()), false);
    return listed.schema();
  }

  public Transform[] inferPartitioning(CaseInsensitiveStringMap options) {
    return listed == null ? new Transform[0] : identities(listed.facts().names("partitions"));
  }

  static Transform[] identities(String[] columns) {
    Transform[] transforms = new Transform[columns.length];
    for (int index = 0; index < columns.length; index++)
      transforms[index] = Expressions.identity("`" + columns[index].replace("`", "``") + "`");
    return transforms;
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    for (Transform transform : partitioning)
      if (!"identity".equals(transform.name()))
        refuse(FORMAT, transform.describe() + ": Mosaic tables have partitions by columns, and no buckets or clusters");
    Statements.install(SparkSession.active());
    Snapshot snapshot = listed;
    listed = null;
    return new MosaicTable(schema, partitioning, (Map<String, String>) properties, snapshot);
  }

  static void refuse(String table, String operation) {
    Map<String, String> details = new LinkedHashMap<String, String>();
    details.put("tableName", table);
    details.put("operation", operation);
    Platform.throwException(new AnalysisException("UNSUPPORTED_FEATURE.TABLE_OPERATION",
        Options.toScala(details)));
  }

  /** df.write, in all modes and with partitionBy. */
  public BaseRelation createRelation(final SQLContext context, SaveMode mode,
      scala.collection.immutable.Map parameters, Dataset data) {
    Map<String, String> options = Options.toJava(parameters);
    CaseInsensitiveStringMap seen = new CaseInsensitiveStringMap(options);
    SchemaUtils.checkSchemaColumnNameDuplication(data.schema(), SQLConf.get().caseSensitiveAnalysis());
    String encoded = (String) options.remove(DataSourceUtils.PARTITIONING_COLUMNS_KEY());
    if (encoded != null) options.put("partitionBy", names(DataSourceUtils.decodePartitioningColumns(encoded)));
    if (mode == SaveMode.Overwrite && !seen.containsKey("partitionOverwriteMode") && (encoded != null || seen.containsKey("partitionBy")))
      options.put("partitionOverwriteMode", SQLConf.get().partitionOverwriteMode().toString().toLowerCase(Locale.ROOT));
    String name = mode == SaveMode.ErrorIfExists ? "error" : mode.name().toLowerCase(Locale.ROOT);
    if (!save(data, options, name, null) && mode == SaveMode.ErrorIfExists)
      Platform.throwException(QueryCompilationErrors.outputPathAlreadyExistsError(new Path(seen.get("path"))));
    final StructType schema = data.schema();
    return new BaseRelation() { // Nobody reads it.
      public SQLContext sqlContext() {
        return context;
      }

      public StructType schema() {
        return schema;
      }
    };
  }

  /**
   * Write rows to a path. Python first checks the write and decides about its mode. Then Spark runs it as a write to a
   * table that accepts these rows: it refuses the modes that are for new tables where it writes to such a table itself.
   *
   * The answer is false, and nothing is written, if the mode is for new tables and there is something already. `batch` is
   * the number of a stream's batch, or null.
   */
  static boolean save(Dataset data, Map<String, String> given, String mode, Long batch) {
    Map<String, String> options = Options.forPython(given).asCaseSensitiveMap();
    MosaicWrite write = new MosaicWrite(data.schema(), options, new String[0], mode, batch);
    if (!write.begin(batch != null)) return false;
    String job = UUID.randomUUID().toString();
    WRITES.put(job, write);
    try {
      DataFrameWriter writer = data.write().format(FORMAT).option(Options.BEGUN, job).mode(SaveMode.Append);
      writer.save(new CaseInsensitiveStringMap(options).get("path"));
    } finally {
      WRITES.remove(job);
    }
    return true;
  }

  /** A write that has begun. */
  static MosaicWrite write(String job) {
    return (MosaicWrite) WRITES.get(job);
  }

  /** All types: Python refuses those that it cannot store, and says which. */
  public boolean supportsDataType(DataType type) {
    return true;
  }

  /** Names as a JSON list, which is how Python takes names that contain commas. */
  private static String names(Seq names) {
    return Options.json(CollectionConverters.asJava(names));
  }

  /** A stream to a path. Of the interfaces that Spark has for streams, only this one gets the columns of partitionBy. */
  public Sink createSink(SQLContext context, scala.collection.immutable.Map parameters, Seq partitionColumns, OutputMode mode) {
    Map<String, String> options = Options.toJava(parameters);
    if (partitionColumns.nonEmpty()) options.put("partitionBy", names(partitionColumns));
    if (mode.equals(OutputMode.Update()))
      Platform.throwException(QueryCompilationErrors.dataSourceOutputModeUnsupportedError(FORMAT, mode));
    return new ToPath(options, mode);
  }

  /**
   * The sink of a stream to a path. Each batch is one write, which names the query and the number of the batch, so that a
   * batch that Spark runs again is left out.
   */
  static final class ToPath implements Sink {
    /** Where Spark tells a batch the id of its query, which lasts as long as the checkpoint. */
    private static final String QUERY_ID = "sql.streaming.queryId";
    private final Map<String, String> options;
    private final OutputMode mode;

    ToPath(Map<String, String> options, OutputMode mode) {
      this.options = options;
      this.mode = mode;
    }

    public void addBatch(long batch, Dataset given) {
      org.apache.spark.sql.classic.Dataset data = (org.apache.spark.sql.classic.Dataset) given;
      SparkSession session = (SparkSession) data.sparkSession();
      Map<String, String> all = new LinkedHashMap<String, String>(options);
      CaseInsensitiveStringMap seen = new CaseInsensitiveStringMap(options);
      if (!seen.containsKey("streamId") && !seen.containsKey("checkpointLocation"))
        all.put("streamId", session.sparkContext().getLocalProperty(QUERY_ID));
      // The plan of a batch is for this run only; its rows are written as those of any other DataFrame.
      Dataset rows = session.internalCreateDataFrame(data.queryExecution().toRdd(), data.schema(), false);
      MosaicSource.save(rows, all, mode.equals(OutputMode.Complete()) ? "overwrite" : "append", batch);
    }

    public String toString() {
      return "mosaic[" + Options.shown((String) options.get("path")) + "]";
    }
  }
}
