"""Tables of state that Spark takes from one directory of the local disk to another are linked, not copied.

When a store of state is opened for the first time, Spark copies all of its tables (SST files) from the query's directory to
where RocksDB works, and each snapshot copies those that are new the other way. RocksDB writes a table once, and deletes it some
day; nobody changes one in place. So a hard link is the same, and a gigabyte of state is opened without being written once more.
Files of any other kind, and those of another disk, are copied as before. Spark asks Hadoop's local file system to copy: the
class below takes its place where Hadoop keeps the one that all of the JVM share. See docs/decisions/199-linked-tables.md.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.compiled import compiled
from kcontrol.adapters.spark.internals.session import hadoop_configuration, java_session, jvm_class
from kcontrol.errors import SparkSettingError

_log = logging.getLogger(__name__)

LINKING_CLASS = "kcontrol.LinkingFiles"
_SOURCE = """
package kcontrol;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

public class LinkingFiles extends LocalFileSystem {
    public void takePlaceOf(LocalFileSystem other, Configuration conf) throws Exception {
        this.fs = other.getRaw();
        setConf(conf);
        initialize(other.getUri(), conf);
        setWriteChecksum(false);
        Method put = FileSystem.class.getDeclaredMethod(
            "addFileSystemForTesting", new Class[] {URI.class, Configuration.class, FileSystem.class});
        put.setAccessible(true);
        put.invoke(null, new Object[] {other.getUri(), conf, this});
    }

    public void copyToLocalFile(boolean delete, Path from, Path to) throws IOException {
        if (delete || !linked(from, to)) {
            super.copyToLocalFile(delete, from, to);
        }
    }

    public void copyFromLocalFile(boolean delete, Path from, Path to) throws IOException {
        if (delete || !linked(from, to)) {
            super.copyFromLocalFile(delete, from, to);
        }
    }

    private boolean linked(Path from, Path to) {
        if (!from.getName().endsWith(".sst") || !to.getName().endsWith(".sst")) {
            return false;
        }
        try {
            // What is copied over it would be written into whatever else is linked to it.
            Files.deleteIfExists(pathToFile(to).toPath());
            Files.createLink(pathToFile(to).toPath(), pathToFile(from).toPath());
            return true;
        } catch (IOException e) {
            return false;
        } catch (RuntimeException e) {
            return false;
        }
    }
}
"""
_changing = threading.Lock()


def link_tables(spark: SparkSession, local: Any) -> Any:
    """For all that asks Hadoop for the local file system from now on; the one that it is given then. local: the one that it is
    given now, which is left as it is where this can't be done, which costs time only."""
    with _changing:
        try:
            if local.getClass().getName() == LINKING_CLASS:
                # An engine is made for each life of a node, and most in a JVM that had one before.
                return local
            made = compiled(spark, LINKING_CLASS, _SOURCE).newInstance()
            made.takePlaceOf(local, hadoop_configuration(spark))
        except (Py4JError, SparkSettingError) as error:
            _log.info("tables of state are copied, as Spark does it: %s", error)
            return local
        return made


def links_tables_of(spark: SparkSession, directory: Path) -> bool:
    """Whether what is in that directory, or is to be, is linked to where RocksDB works: it is on one disk with it."""
    try:
        is_asked = link_tables(spark, local_file_system(spark)).getClass().getName() == LINKING_CLASS
        context = java_session(spark).sparkContext()
        works = jvm_class(spark, "org.apache.spark.util.Utils").getLocalDir(context.conf())
        there = next(each for each in (directory, *directory.parents) if each.exists())
        return is_asked and Path(str(works)).stat().st_dev == there.stat().st_dev
    except (Py4JError, SparkSettingError, OSError) as error:
        _log.info("nobody knows where RocksDB works: %s", error)
        return False


def local_file_system(spark: SparkSession) -> Any:
    """Hadoop's, that all of the JVM share."""
    place = jvm_class(spark, "java.net.URI")("file:///")
    return jvm_class(spark, "org.apache.hadoop.fs.FileSystem").get(place, hadoop_configuration(spark))
