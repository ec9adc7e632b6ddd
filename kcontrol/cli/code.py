"""The code that a command gives the hosts along with a job."""

from __future__ import annotations

from pathlib import Path

import click

from kcontrol.apps.agent.packing import pack
from kcontrol.apps.agent.placing import JobCode
from kcontrol.errors import ConfigurationError

package_option = click.option(
    "--package",
    "with_code",
    is_flag=True,
    help="Give the hosts FILE, and the modules beside it that it imports, in a topic; agents run it that were started with "
    "--packages.",
)
include_option = click.option(
    "--include",
    "included",
    type=click.Path(path_type=Path),
    multiple=True,
    help="With --package: more of what lies beside FILE, a file or a folder. May be given several times.",
)
requirements_option = click.option(
    "--requirements",
    type=click.Path(path_type=Path),
    help="With --package: a file beside FILE that names the libraries it needs, each as name==version; hosts make an "
    "environment that has them.",
)
sign_option = click.option(
    "--sign",
    "key",
    type=click.Path(path_type=Path),
    metavar="KEY",
    help="With --package: sign it with this private key (ssh-keygen -t ed25519), for agents with --trusted-keys.",
)


def packed(
    file: Path, with_code: bool, included: tuple[Path, ...], requirements: Path | None, key: Path | None
) -> JobCode | None:
    """What the hosts are given; None if they have the file. Raises ConfigurationError."""
    if not with_code:
        if included or requirements is not None or key is not None:
            raise ConfigurationError("--include, --requirements and --sign go with --package")
        return None
    package = pack(file, included, requirements)
    if key is None:
        return JobCode(package)
    # Whoever signs nothing does not load the library.
    from kcontrol.apps.agent.trust import PackageSigner

    return JobCode(package, PackageSigner(key).sign(package.name))
