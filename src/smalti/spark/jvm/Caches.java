package smalti.spark.jvm;

import java.lang.ref.WeakReference;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.CachedData;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * What Spark has cached of a path that was written to, which is cached anew, with the files that are there now.
 *
 * Spark does that for tables of its catalog, by their names, and for paths of its own formats. It plans the query of a
 * cache again, and our tables list their files once: so those in such queries forget what they have listed.
 */
final class Caches {
  private static final Logger LOG = LoggerFactory.getLogger("smalti.spark");

  /** The tables of paths that are in use. Frames that share a cache may each have their own. */
  private static final List<WeakReference<MosaicTable>> LOADED = new ArrayList<WeakReference<MosaicTable>>();

  private Caches() {}

  /** Remember a table of a path, as long as a frame has it. */
  static void add(MosaicTable table) {
    synchronized (LOADED) {
      loaded();
      LOADED.add(new WeakReference<MosaicTable>(table));
    }
  }

  private static List<MosaicTable> loaded() {
    List<MosaicTable> found = new ArrayList<MosaicTable>();
    synchronized (LOADED) {
      for (Iterator<WeakReference<MosaicTable>> each = LOADED.iterator(); each.hasNext();) {
        MosaicTable table = (MosaicTable) ((WeakReference) each.next()).get();
        if (table == null) each.remove();
        else found.add(table);
      }
    }
    return found;
  }

  /** After a commit, which has happened: a cache that cannot be filled again is dropped, and no error is raised. */
  static void refresh(String path) {
    try {
      SparkSession session = SparkSession.active();
      CacheManager manager = session.sharedState().cacheManager();
      if (manager.isEmpty()) return;
      List<MosaicTable> changed = new ArrayList<MosaicTable>();
      List<LogicalPlan> stale = new ArrayList<LogicalPlan>();
      // A query is planned with what is cached of its parts. Spark plans it again when such a part is cached anew, except
      // for parts that are subqueries: so these queries are the last.
      List<LogicalPlan> nested = new ArrayList<LogicalPlan>();
      for (Object entry : entries(manager)) {
        LogicalPlan plan = ((CachedData) entry).plan();
        List<MosaicTable> found = tables(plan, path);
        if (!found.isEmpty()) (plan.subqueriesAll().isEmpty() ? stale : nested).add(plan);
        changed.addAll(found);
      }
      stale.addAll(nested);
      if (changed.isEmpty()) return;
      for (MosaicTable table : loaded())
        if (table.isListed() && changed.contains(table)) changed.add(table);
      for (MosaicTable table : changed) table.forget();
      for (LogicalPlan plan : stale) recache(manager, session, plan, path);
    } catch (Exception error) {
      LOG.warn("what is cached of " + Options.shown(path) + " may be old: " + error);
    }
  }

  private static void recache(CacheManager manager, SparkSession session, LogicalPlan plan, String path) {
    try {
      manager.recacheByPlan(session, plan);
    } catch (Exception error) {
      LOG.warn("a query of " + Options.shown(path) + " is no longer cached: " + error);
    }
  }

  /** The tables that a plan reads, of those that a path may be of. */
  private static List<MosaicTable> tables(LogicalPlan plan, final String path) {
    final List<MosaicTable> found = new ArrayList<MosaicTable>();
    plan.foreachWithSubqueries(new AbstractFunction1() {
      public Object apply(Object node) {
        if (node instanceof DataSourceV2Relation && ((DataSourceV2Relation) node).table() instanceof MosaicTable) {
          MosaicTable table = (MosaicTable) ((DataSourceV2Relation) node).table();
          if (table.mayHave(path)) found.add(table);
        }
        return BoxedUnit.UNIT;
      }
    });
    return found;
  }

  /** All that is cached. Spark has no public list of it. */
  private static Iterable<Object> entries(CacheManager manager) throws ReflectiveOperationException {
    Method entries = CacheManager.class.getDeclaredMethod("cachedData");
    entries.setAccessible(true);
    return CollectionConverters.asJava((Seq) entries.invoke(manager));
  }
}
