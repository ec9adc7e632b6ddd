"""What a JVM does slowly the first time it is asked: Scala's reflection, the tables of the SQL parser, the compiler of
generated code; and, once there is a session, the library of RocksDB.

Each of the first three stands on libraries alone, or initialises one class of Spark's that stands on nothing else: so it may
be asked while another thread makes the session, which initialises Spark's own classes, and neither can wait for the other.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.session import jvm_class

_REFLECTION = "scala.reflect.runtime.package"
_GRAMMAR = "org.apache.spark.sql.catalyst.parser."
_COMPILER = "org.codehaus.janino.ClassBodyEvaluator"
_LIBRARY = "org.apache.spark.sql.execution.streaming.state.RocksDBLoader"
_GENERATED = """
public Object generate(Object[] references) { return new Once(references); }
static class Once {
  private Object[] references;
  private java.util.ArrayList<Object> rows = new java.util.ArrayList<Object>();
  Once(Object[] references) { this.references = references; }
  public boolean next(int count) {
    long sum = -1L;
    for (int i = 0; i < count; i++) {
      boolean isNull = references[i] == null;
      if (!isNull) { sum += i; } else if (i > 1 && sum != 3L) { throw new RuntimeException("none"); }
    }
    rows.add(Long.valueOf(sum));
    return sum >= 0 ? true : false;
  }
}
"""
"""Has of Java what Spark's generated code has."""


def first_reflection(gateway: Any) -> None:
    """Of Scala's classes, as Spark's encoders need it. Raises py4j's errors, as the others do."""
    view = gateway.jvm
    loader = getattr(view, "java.lang.Thread").currentThread().getContextClassLoader()
    mirror = getattr(view, _REFLECTION).universe().runtimeMirror(loader)
    for name in ("scala.Option", "scala.collection.Seq"):
        mirror.staticClass(name).typeSignature()


def first_parser(gateway: Any) -> None:
    """Of SQL, in which types are written, too."""
    classes = getattr(gateway.jvm, "java.lang.Class")
    for name in ("SqlBaseLexer", "SqlBaseParser"):
        classes.forName(_GRAMMAR + name)


def first_compiler(gateway: Any) -> None:
    """Of what Spark generates of a plan."""
    compiler = getattr(gateway.jvm, _COMPILER)()
    compiler.setClassName("kcontrol.Once")
    compiler.cook(_GENERATED)


def first_library(spark: SparkSession) -> None:
    """Of RocksDB: it is copied out of its jar, and loaded."""
    jvm_class(spark, _LIBRARY).loadLibrary()
