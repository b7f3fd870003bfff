# The controller's image: no shell, no package manager, not root.
#
#   make image                                                 # for yourself; builds the wheel first
#   make release-image BUILD=IMAGE:TAG@sha256:... RUN=...      # for others: refuses bases without a digest
#
# The defaults below are tags, and a tag can be moved to other bytes; distroless has no tags of single releases at all.
# Both bases must carry the same Python release (3.11), because the packages are compiled for it.
ARG BUILD=python:3.11.13-slim-bookworm
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
