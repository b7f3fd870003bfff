# The controller's image: no shell, no package manager, not root.
#
#   make image                          # builds the wheel first
#   docker build --build-arg BUILD=python:3.11-slim-bookworm@sha256:... --build-arg RUN=...@sha256:... .
#
# Pin both bases by digest where a registry is reachable. Both must carry the same Python release, because the
# packages are compiled for it.
ARG BUILD=python:3.11-slim-bookworm
ARG RUN=gcr.io/distroless/python3-debian12:nonroot

FROM ${BUILD} AS build
COPY requirements/runtime.txt /build/
COPY dist/*.whl /build/
# Hashes of every package are checked; nothing is compiled from source.
RUN python -m pip install --no-cache-dir --require-hashes --only-binary :all: --target /app -r /build/runtime.txt \
 && python -m pip install --no-cache-dir --no-deps --target /app /build/*.whl \
 && python -m compileall -q /app

FROM ${RUN}
COPY --from=build /app /app
ENV PYTHONPATH=/app PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/usr/bin/python3", "-m", "karpenter"]
CMD ["controller"]
