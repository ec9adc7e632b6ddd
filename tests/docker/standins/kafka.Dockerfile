# Stands in for apache/kafka where that image can't be pulled: the same version's published jars, on kcontrol's image for its Java.
ARG KCONTROL
FROM ${KCONTROL}
USER root
COPY jars /opt/kafka/libs
COPY start.py /opt/kafka/start.py
# What compose.yaml asks for the broker's health: whether its port is open has to do here.
RUN mkdir -p /opt/kafka/bin /var/lib/kafka/data \
 && chown 10001:10001 /var/lib/kafka/data \
 && printf '#!/bin/bash\nexec 3<>"/dev/tcp/${2%%%%:*}/${2##*:}"\n' > /opt/kafka/bin/kafka-broker-api-versions.sh \
 && chmod 755 /opt/kafka/bin/kafka-broker-api-versions.sh
USER 10001:10001
ENTRYPOINT ["python3", "/opt/kafka/start.py"]
CMD []
