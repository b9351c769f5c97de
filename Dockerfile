# The autoscaler in a container: `docker build -t autoscaler:0.1.0 .`
#
# It runs as any user without privileges, writes to /var/lib/autoscaler only, and has nothing in it
# that the lock files do not pin.  Pin the base image by its digest in your own builds:
# --build-arg BASE=python@sha256:...
#
# --build-arg LOCK=requirements-cloud.lock adds the libraries that sign in to the managed Prometheus
# of Amazon, Google and Azure, about 55 MB.
ARG BASE=docker.io/library/python:3.13-slim-bookworm

# The wheel, built with the locked build tools.
FROM ${BASE} AS wheel
WORKDIR /src
COPY requirements-build.lock ./
RUN python -m pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY autoscaler autoscaler
RUN python -m pip wheel --no-build-isolation --no-deps --wheel-dir /wheel .

# The virtual environment.  Only what is imported is compiled: of the Kubernetes client's thousands
# of classes hardly any are, and all of them would make the image half as large again.
FROM ${BASE} AS environment
ARG LOCK=requirements.lock
RUN python -m venv --without-pip /opt/autoscaler
COPY requirements.lock requirements-cloud.lock ./
RUN python -m pip --python /opt/autoscaler/bin/python install \
    --no-cache-dir --no-compile --require-hashes -r ${LOCK}
COPY --from=wheel /wheel /wheel
RUN python -m pip --python /opt/autoscaler/bin/python install \
    --no-cache-dir --no-compile --no-deps /wheel/*.whl
RUN ["/opt/autoscaler/bin/python", "-c", "import autoscaler.daemon.service, autoscaler.cli.planning, autoscaler.cli.validating"]
# What the image keeps state in: empty, and there the daemon's own.
RUN mkdir -m 700 /state

FROM ${BASE}
LABEL org.opencontainers.image.title="autoscaler" \
      org.opencontainers.image.description="Scales Kubernetes workloads on Prometheus metrics exactly as the HorizontalPodAutoscaler would" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=environment /opt/autoscaler /opt/autoscaler
COPY --from=environment --chown=65532:65532 /state /var/lib/autoscaler
ENV PATH=/opt/autoscaler/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
USER 65532:65532
EXPOSE 9191
ENTRYPOINT ["autoscaler"]
CMD ["run", "-c", "/etc/autoscaler/autoscaler.yaml"]
