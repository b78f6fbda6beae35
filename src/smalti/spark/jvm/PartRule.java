package smalti.spark.jvm;

import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** A rule that is asked about every part of a plan. */
abstract class PartRule extends Rule {
  final SparkSession session;
  /** `change` in the form that Spark's walks over plans take. */
  final AbstractPartialFunction changes = new AbstractPartialFunction() {
    public boolean isDefinedAt(Object node) {
      return true;
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      return change(node);
    }
  };

  PartRule(SparkSession session) {
    this.session = session;
  }

  /** The node that takes the place of a node. */
  abstract Object change(Object node);
}
