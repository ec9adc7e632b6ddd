"""The rights of files on the local disk, set by Java itself instead of by a process.

Hadoop's local file system sets the rights of each file that it makes. Without Hadoop's native library, which Spark does not
bring, it starts `chmod` for that, for every changelog of every partition of state in every step: half a dozen milliseconds
in which the step waits, on two processors that have other things to do. The class below does the same by java.nio. It is
compiled by the compiler that Spark has for its generated code, and takes the place of the one that Hadoop's has beneath it.
See docs/decisions/131-rights-without-processes.md.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals.checking import field_of
from kcontrol.adapters.spark.internals.compiled import compiled
from kcontrol.adapters.spark.internals.session import hadoop_configuration, jvm_class
from kcontrol.errors import SparkSettingError

_log = logging.getLogger(__name__)

CLASS = "kcontrol.LocalFiles"
_SOURCE = """
package kcontrol;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission rights) throws IOException {
        if (rights.getStickyBit()) {
            super.setPermission(path, rights);
            return;
        }
        String text = rights.getUserAction().SYMBOL + rights.getGroupAction().SYMBOL + rights.getOtherAction().SYMBOL;
        try {
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        } catch (UnsupportedOperationException e) {
            super.setPermission(path, rights);
        }
    }
}
"""
_changing = threading.Lock()


def set_rights_without_processes(spark: SparkSession, local: Any) -> bool:
    """For all that this JVM writes through a local file system of Hadoop's from now on; whether that is so. Where it can't be
    done, which costs time only, it is as before."""
    with _changing:
        try:
            if local.getRawFileSystem().getClass().getName() == CLASS:
                # An engine is made for each life of a node, and most in a JVM that had one before.
                return True
            field = field_of(local.getClass(), "fs")
            if field is None:
                return False
            field.set(local, _made(spark))
        except (Py4JError, SparkSettingError) as error:
            _log.info("rights of local files are set by processes, as Hadoop does it: %s", error)
            return False
        return True


def _made(spark: SparkSession) -> Any:
    files = compiled(spark, CLASS, _SOURCE).newInstance()
    files.initialize(jvm_class(spark, "java.net.URI")("file:///"), hadoop_configuration(spark))
    return files
