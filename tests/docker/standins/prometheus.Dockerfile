# Stands in for prom/prometheus where that image can't be pulled: Debian's package of it, started in the same way.
ARG BASE
FROM ${BASE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends prometheus \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner nobody --group nogroup /prometheus
USER nobody
WORKDIR /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
