# The autoscaler in a container: `docker build -t autoscaler:0.1.0 .`, for more than one platform
# `docker buildx build --platform linux/amd64,linux/arm64 .`.
#
# It runs as any user without privileges on a read-only file system, and writes only to
# /var/lib/autoscaler.
#
# The base is Debian 13's own Python from distroless.  Unlike python:3.13-slim it has no shell, no apt
# and no pip (and no wheels that ensurepip could install), and scanners find its packages in
# /var/lib/dpkg/status.d.  On amd64 these packages have 55 MB (21 MB compressed), and the virtual
# environment has 121 MB (19 MB), of which 72 MB are the Kubernetes client: measured with
# `du -sm --apparent-size` and `tar -c | gzip | wc -c` after the steps below, in Debian 13.
#
# --build-arg BASE=gcr.io/distroless/python3-debian13:debug-nonroot adds a shell, which jobs of
# GitLab and of GitHub with `container:` need.
#
# Releases pin both bases: --build-arg BASE=gcr.io/distroless/python3-debian13@sha256:... and
# --build-arg BUILDER=docker.io/library/debian@sha256:...
#
# --build-arg LOCK=requirements-cloud.lock adds the libraries that sign in to the managed Prometheus
# of Amazon, Google and Azure, about 45 MB.
ARG BASE=gcr.io/distroless/python3-debian13:nonroot
ARG BUILDER=docker.io/library/debian:trixie-slim

# The wheel, built with the locked build tools.  It is pure Python: one for all platforms.
FROM --platform=${BUILDPLATFORM} ${BUILDER} AS wheel
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
RUN python3 -m venv /tools
WORKDIR /src
COPY requirements-build.lock ./
RUN /tools/bin/python -m pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY autoscaler autoscaler
COPY config/queue.yaml config/queue.yaml
COPY systemd systemd
RUN /tools/bin/python -m pip wheel --no-build-isolation --no-deps --wheel-dir /wheel .

# The virtual environment, without pip.  Only modules that are imported are compiled: hardly any of
# the Kubernetes client's thousands of classes are, and all of them would double its size.
FROM ${BUILDER} AS environment
ARG LOCK=requirements.lock
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv
RUN python3 -m venv /tools && python3 -m venv --without-pip /opt/autoscaler
COPY requirements.lock requirements-cloud.lock ./
RUN /tools/bin/python -m pip --python /opt/autoscaler/bin/python install \
    --no-cache-dir --no-compile --require-hashes -r ${LOCK}
COPY --from=wheel /wheel /wheel
RUN /tools/bin/python -m pip --python /opt/autoscaler/bin/python install \
    --no-cache-dir --no-compile --no-deps /wheel/*.whl
RUN ["/opt/autoscaler/bin/python", "-c", "import autoscaler.daemon.service, autoscaler.cli.planning, autoscaler.cli.validating"]
# The state folder of the image: empty, and only the daemon may read it.
RUN mkdir -m 700 /state

FROM ${BASE}
ARG VERSION
ARG REVISION
ARG CREATED
ARG SOURCE
LABEL org.opencontainers.image.title="autoscaler" \
      org.opencontainers.image.description="Scales Kubernetes workloads on Prometheus metrics exactly as the HorizontalPodAutoscaler would" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=environment /opt/autoscaler /opt/autoscaler
COPY --from=environment --chown=65532:65532 /state /var/lib/autoscaler
ENV PATH=/opt/autoscaler/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONFAULTHANDLER=1
# Other users than the base's own cannot enter its home.
WORKDIR /
USER 65532:65532
EXPOSE 9191
ENTRYPOINT ["autoscaler"]
CMD ["run", "-c", "/etc/autoscaler/autoscaler.yaml"]
