package smalti.spark.jvm;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.HashSet;
import java.util.Arrays;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/** What Spark passes under the name of options, sorted into what each part of smalti may see. */
final class Options {
  /** Names a write that has begun; see MosaicSource.save. */
  static final String JOB = "smalti.job";
  /** Tells Python that the options are of a table in a catalog: some are for reading, others for writing. */
  static final String TABLE = "smalti.table";
  /** Properties of a table in a catalog, as JSON. Those that are called like an option count as one. */
  static final String PROPERTIES = "smalti.properties";
  private static final String OPTION = "option.";
  private static final Set<String> RESERVED = new HashSet<String>(Arrays.asList(new String[] {"owner", "provider",
      "location", "external", "is_managed_location", "comment", "collation", "transient_lastddltime"}));

  private Options() {}

  static boolean isTable(Map<String, String> given) {
    return given.containsKey("owner") || given.containsKey("provider") || given.containsKey("transient_lastDdlTime");
  }

  /** What Python sees. */
  static CaseInsensitiveStringMap forPython(Map<String, String> given) {
    Map<String, String> kept = new LinkedHashMap<String, String>();
    Map<String, String> properties = new LinkedHashMap<String, String>();
    boolean table = isTable(given);
    for (Map.Entry<String, String> entry : given.entrySet()) {
      String key = (String) entry.getKey();
      String lower = key.toLowerCase(Locale.ROOT);
      if (lower.startsWith("__")) continue;
      if (lower.equals("path")) kept.put(key, path((String) entry.getValue()));
      else if (lower.startsWith(OPTION)) kept.put(key.substring(OPTION.length()), entry.getValue());
      else if (!table) kept.put(key, entry.getValue());
      else if (!RESERVED.contains(lower) && !lower.startsWith("spark.sql.")) properties.put(key, entry.getValue());
    }
    if (table) {
      kept.put(TABLE, "true");
      kept.put(PROPERTIES, json(properties));
    }
    return new CaseInsensitiveStringMap(kept);
  }

  /** A path for people, without what a URI may carry of passwords, keys and tokens. */
  static String shown(String path) {
    if (path == null) return "";
    return path.replaceFirst("://([^/?#@:]*):[^/?#]*@", "://$1:***@").replaceFirst("(://[^?]*)[?].*", "$1?***");
  }

  /** A path as pyarrow takes it: a local one without scheme. */
  static String path(String given) {
    return given.startsWith("file:") ? new Path(given).toUri().getPath() : given;
  }

  /** The first options, with those of the second in their place. */
  static Map<String, String> merge(CaseInsensitiveStringMap first, CaseInsensitiveStringMap second) {
    Map<String, String> all = new LinkedHashMap<String, String>();
    for (Map.Entry<String, String> entry : first.asCaseSensitiveMap().entrySet())
      if (!second.containsKey(entry.getKey())) all.put(entry.getKey(), entry.getValue());
    all.putAll(second.asCaseSensitiveMap());
    return all;
  }

  /** Settings of the session that stand in for options that were not given. */
  static CaseInsensitiveStringMap withSession(Map<String, String> given) {
    SQLConf conf = SQLConf.get();
    CaseInsensitiveStringMap seen = new CaseInsensitiveStringMap(given);
    Map<String, String> all = new LinkedHashMap<String, String>(given);
    if (!seen.containsKey("maxPartitionBytes")) all.put("maxPartitionBytes", String.valueOf(conf.filesMaxPartitionBytes()));
    if (!seen.containsKey("openCostBytes")) all.put("openCostBytes", String.valueOf(conf.filesOpenCostInBytes()));
    if (!seen.containsKey("minPartitions")) {
      Option least = conf.filesMinPartitionNum();
      int cores = SparkContext.getOrCreate().defaultParallelism();
      all.put("minPartitions", String.valueOf(least.isDefined() ? ((Integer) least.get()).intValue() : cores));
    }
    if (!seen.containsKey("caseSensitive")) all.put("caseSensitive", String.valueOf(conf.caseSensitiveAnalysis()));
    if (!seen.containsKey("ignoreCorruptFiles") && conf.ignoreCorruptFiles()) all.put("ignoreCorruptFiles", "true");
    if (!seen.containsKey("ignoreMissingFiles") && conf.ignoreMissingFiles()) all.put("ignoreMissingFiles", "true");
    if (!seen.containsKey("timeZone")) all.put("timeZone", conf.sessionLocalTimeZone());
    if (!seen.containsKey("inferPartitionTypes") && !conf.partitionColumnTypeInferenceEnabled()) all.put("inferPartitionTypes", "false");
    return new CaseInsensitiveStringMap(all);
  }

  /** The same for options of a write. */
  static void addSessionTo(Map<String, String> options) {
    long most = SQLConf.get().maxRecordsPerFile();
    if (most > 0 && !new CaseInsensitiveStringMap(options).containsKey("maxRecordsPerFile"))
      options.put("maxRecordsPerFile", String.valueOf(most));
  }

  /** Names as a JSON list, which is how Python takes names that contain commas. */
  static String names(String[] names) {
    return json(names);
  }

  static Object parse(String json) {
    try {
      return Planner.JSON.readValue(json, Object.class);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  static String json(Object value) {
    try {
      return Planner.JSON.writeValueAsString(value);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }
}
