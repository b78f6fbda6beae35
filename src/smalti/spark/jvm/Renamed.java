package smalti.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.StructType;
import org.slf4j.LoggerFactory;

/**
 * A warning of columns that a catalog knows by a name which the files no longer have: they are read as nulls. Jobs that
 * rename columns change files, and know of no catalog.
 */
final class Renamed {
  private static final int MOST_KEPT = 1000;
  private static final int MOST_NAMED = 5;
  /** Warnings that were given, of which each is given once. */
  private static final Map<String, Boolean> GIVEN =
      Collections.synchronizedMap(new LinkedHashMap<String, Boolean>(8, 0.75f, true) {
        protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
          return size() > MOST_KEPT;
        }
      });

  private Renamed() {}

  /** Warn if a file lacks columns that a plan reads, and has others that the table lacks. */
  static void warn(String table, StructType schema, Planner.Answer plan) {
    if (!plan.has("lacking")) return;
    Set<String> known = new HashSet<String>();
    for (String name : schema.fieldNames()) known.add(name.toLowerCase(Locale.ROOT));
    List<String> others = new ArrayList<String>();
    for (String name : plan.names("stored"))
      if (!known.contains(name.toLowerCase(Locale.ROOT))) others.add(name);
    if (others.isEmpty()) return;
    String text = table + " has files without " + shown(plan.names("lacking")) + ", read as null, and with "
        + shown((String[]) others.toArray(new String[0])) + ", which the catalog does not know. After "
        + "smalti.jobs.rename_columns, ALTER TABLE .. RENAME COLUMN .. TO .. tells the catalog";
    if (GIVEN.put(text, Boolean.TRUE) == null) LoggerFactory.getLogger("smalti.spark").warn(text);
  }

  private static String shown(String[] names) {
    List<String> all = Arrays.asList(names);
    return String.join(", ", all.subList(0, Math.min(MOST_NAMED, all.size()))) + (all.size() > MOST_NAMED ? " .." : "");
  }
}
