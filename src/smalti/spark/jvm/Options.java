package smalti.spark.jvm;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** What Spark passes as options, without what is not for Python. Tables of a catalog have properties among them. */
final class Options {
  /** The option that names a write which has begun; see MosaicSource.save. */
  static final String BEGUN = "smalti.begun";
  /** Tells Python that the options are of a table in a catalog: some are for reading, others for writing. */
  static final String TABLE = "smalti.table";
  /** Properties of a table in a catalog, as JSON. Those that are called like an option count as one. */
  static final String PROPERTIES = "smalti.properties";
  private static final String OPTION = "option.";
  private static final Set<String> RESERVED = Set.of("owner", "provider", "location", "external",
      "is_managed_location", "comment", "collation", "transient_lastddltime");

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

  /** Whether one of the paths that options name is, contains or is within a path. */
  static boolean overlap(CaseInsensitiveStringMap given, String path) {
    List<String> roots = new ArrayList<String>();
    if (given.containsKey("path")) roots.add(given.get("path"));
    String others = given.containsKey("paths") ? given.get("paths").trim() : "";
    if (others.startsWith("[")) roots.addAll((List<String>) parse(others));
    else roots.addAll(Arrays.asList(others.split(",")));
    String place = place(path);
    for (String root : roots) {
      // What comes before the first glob, as a directory.
      String known = root.trim().replaceFirst("(^|/)[^/]*[*?{\\[].*", "");
      if (!root.trim().isEmpty() && (place.startsWith(place(known)) || place(known).startsWith(place))) return true;
    }
    return false;
  }

  /** A path in one spelling, which ends with a slash; without the scheme of a store, which may have several. */
  private static String place(String path) {
    String plain = path(path);
    int scheme = plain.indexOf("://");
    String place = scheme >= 0 ? plain.substring(scheme + 3) : new File(plain).getAbsolutePath();
    try {
      if (scheme < 0) place = new File(plain).getCanonicalPath(); // without links
    } catch (IOException error) {
      // as it is written, then
    }
    return place.endsWith("/") ? place : place + "/";
  }

  /** Some options, with others in the place of those that have the same names. */
  static CaseInsensitiveStringMap merge(Map<String, String> first, CaseInsensitiveStringMap others) {
    Map<String, String> all = new LinkedHashMap<String, String>();
    for (Map.Entry<String, String> entry : first.entrySet())
      if (!others.containsKey(entry.getKey())) all.put(entry.getKey(), entry.getValue());
    all.putAll(others.asCaseSensitiveMap());
    return new CaseInsensitiveStringMap(all);
  }

  /** Settings of the session, which stand in for options that were not given. */
  static Map<String, String> session() {
    SQLConf conf = SQLConf.get();
    Map<String, String> session = new LinkedHashMap<String, String>();
    session.put("maxPartitionBytes", String.valueOf(conf.filesMaxPartitionBytes()));
    session.put("openCostBytes", String.valueOf(conf.filesOpenCostInBytes()));
    Object cores = SparkContext.getOrCreate().defaultParallelism();
    Option least = conf.filesMinPartitionNum();
    session.put("minPartitions", String.valueOf(least.isDefined() ? least.get() : cores));
    session.put("caseSensitive", String.valueOf(conf.caseSensitiveAnalysis()));
    session.put("ignoreCorruptFiles", String.valueOf(conf.ignoreCorruptFiles()));
    session.put("ignoreMissingFiles", String.valueOf(conf.ignoreMissingFiles()));
    session.put("timeZone", conf.sessionLocalTimeZone());
    session.put("inferPartitionTypes", String.valueOf(conf.partitionColumnTypeInferenceEnabled()));
    session.put("maxRecordsPerFile", String.valueOf(conf.maxRecordsPerFile()));
    return session;
  }

  static scala.collection.immutable.Map toScala(Map given) {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(given));
  }

  /** A copy that may be changed. */
  static Map<String, String> toJava(scala.collection.immutable.Map given) {
    return new LinkedHashMap<String, String>((Map<String, String>) CollectionConverters.asJava(given));
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
