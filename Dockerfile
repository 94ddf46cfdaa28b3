# One file for every release and variant; docker-bake.hcl gives the arguments from images/.
# Replaceable by named build contexts: the base image by its own name, `wheelhouse` (a folder of
# wheels, tried before any index), and each stage by its name. Optional secrets: `ca` (CA bundle for
# a mirror behind a private authority), `index` (shell assignments such as UV_DEFAULT_INDEX and
# PIP_INDEX_URL for a private mirror, credentials allowed).
ARG BASE
ARG VARIANT

FROM scratch AS wheelhouse

# What runs needs from the distribution.
# hadolint ignore=DL3006
FROM ${BASE} AS system-cpu
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 tini \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
    /usr/share/doc /usr/share/man

# JIT kernels are compiled on the host they run on: a host compiler and Python.h beside nvcc's wheels.
FROM system-cpu AS system-cuda
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends g++ python3-dev libnuma1 \
 && ln -s /opt/venv/lib/python3.11/site-packages/nvidia/cu13 /usr/local/cuda \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/apt /var/log/dpkg.log \
    /usr/share/doc /usr/share/man

# hadolint ignore=DL3006
FROM system-${VARIANT} AS tools
ARG UV
# An index that stumbles for a minute should not end a build of several.
ENV UV_NO_CACHE=1 UV_HTTP_TIMEOUT=300 UV_HTTP_RETRIES=12 VIRTUAL_ENV=/opt/venv PIP_NO_CACHE_DIR=1 \
    PIP_RETRIES=12 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
# hadolint ignore=DL3008,DL3042
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt,required=false \
    --mount=type=secret,id=index,required=false \
    --mount=type=bind,from=wheelhouse,target=/wheelhouse \
    --mount=type=bind,source=images/build/with-index,target=/build/with-index <<'SH'
set -eu
apt-get update
apt-get install -y --no-install-recommends python3-venv git
rm -rf /var/lib/apt/lists/*
python3 -m venv /tools
/build/with-index /tools/bin/pip install -q --find-links /wheelhouse "uv==${UV}"
SH

# Everything but SGLang: the large layers, the same for every patch. nvidia/ and torch/ apart, so
# that a change in one small wheel moves neither.
FROM tools AS installed
ARG VARIANT
ARG RELEASE
ARG TORCH_INDEX
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt,required=false \
    --mount=type=secret,id=index,required=false \
    --mount=type=bind,from=wheelhouse,target=/wheelhouse \
    --mount=type=bind,source=images/build/with-index,target=/build/with-index \
    --mount=type=bind,source=images/build/install-deps,target=/build/install-deps \
    --mount=type=bind,source=images/${RELEASE}/requirements-${VARIANT}.txt,target=/requirements.txt \
    /build/install-deps "${VARIANT}" /requirements.txt /opt/venv /split

# Apart, so that a build for other cards downloads and installs nothing again.
FROM installed AS deps
ARG VARIANT
# Compute capabilities of the cards that the image is for, such as "12.0"; empty for every card.
ARG CAPABILITIES
RUN --mount=type=bind,source=images/build/leave-out,target=/build/leave-out \
    /build/leave-out "${VARIANT}" /opt/venv "${CAPABILITIES}"

FROM tools AS wheel
ARG SGLANG
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt,required=false \
    --mount=type=secret,id=index,required=false \
    --mount=type=bind,from=wheelhouse,target=/wheelhouse \
    --mount=type=bind,source=images/build/with-index,target=/build/with-index \
    /build/with-index /tools/bin/pip download -q --no-deps --only-binary :all: \
      --find-links /wheelhouse -d /wheel "sglang==${SGLANG}"

# SGLang alone, patched: a layer of tens of megabytes. Every hash is checked against the lock here.
FROM tools AS sglang
ARG RELEASE
ARG VARIANT
ARG TREE
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    --mount=type=bind,source=src/dflash_kit/releases,target=/kit/dflash_kit/releases \
    --mount=type=bind,source=images/${RELEASE},target=/release <<'SH'
set -eu
PYTHONPATH=/kit PYTHONDONTWRITEBYTECODE=1 python3 -m dflash_kit.releases.assemble \
  --release "${RELEASE}" --tree "${TREE}" --variant "${VARIANT}" \
  --release-dir /release --wheel /wheel/*.whl --out /opt/sglang --info /info
# A read-only root never gets its .pyc later, and without them a start takes twice as long.
python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/sglang
SH

# Everything that comes from elsewhere. Kernels are compiled on these very layers: copied once more
# for them, they would take their gigabytes twice.
# hadolint ignore=DL3006
FROM system-${VARIANT} AS engine
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin sglang \
 && install -d -o sglang -g sglang -m 0700 /var/lib/dflash-kit/keys /var/lib/dflash-kit/cache
COPY --from=deps /split/nvidia /
COPY --from=deps /split/torch /
COPY --from=deps /opt/venv /opt/venv
COPY --from=sglang /opt/sglang /opt/sglang
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin DFLASH_KIT_CACHE=/var/lib/dflash-kit/cache

# What SGLang would compile at its first use, and can be compiled without a GPU; none for CPUs.
# hadolint ignore=DL3006
FROM system-cpu AS kernels-cpu
RUN mkdir /kernels

FROM engine AS kernels-cuda
ARG RELEASE
ARG TREE
ARG CAPABILITIES
RUN --mount=type=bind,source=src/dflash_kit/releases,target=/kit/dflash_kit/releases \
    --mount=type=bind,source=src/dflash_kit/engine/kernels.py,target=/kernels.py \
    --mount=type=bind,source=images/${RELEASE}/engine.yaml,target=/engine.yaml <<'SH'
set -eu
: "${CAPABILITIES:=9.0 10.3 12.0}"
PYTHONPATH=/kit python3 -B -m dflash_kit.releases.card_code \
  /opt/venv/lib/python3.*/site-packages ${CAPABILITIES}
for capability in ${CAPABILITIES}; do
  python3 -B /kernels.py /engine.yaml "${TREE}" /kernels "${capability}"
done
SH

# hadolint ignore=DL3006
FROM kernels-${VARIANT} AS kernels

FROM tools AS kit
ARG RELEASE
COPY src /kit/src
COPY smoke_tests /kit/smoke_tests
COPY models /kit/models
COPY images/releases.yaml /kit/images/
COPY images/pairs /kit/images/pairs
COPY images/profiles /kit/images/profiles
COPY images/${RELEASE} /kit/images/${RELEASE}
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /kit/src /kit/smoke_tests \
 && chmod -R a+rX,go-w /kit

FROM engine AS runtime
COPY --from=sglang /info /opt/dflash-kit
COPY --from=kernels /kernels /opt/dflash-kit/kernels
COPY --from=kit /kit /opt/dflash-kit
ENV HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    DFLASH_KIT_KEYS=/var/lib/dflash-kit/keys
USER 10001:10001
EXPOSE 30000
ENTRYPOINT ["/usr/bin/tini", "--", "dflash-kit"]
CMD ["serve"]
ARG RELEASE
ARG VARIANT
ARG PATCHES
ARG TREE
ARG REVISION
# serve refuses the profile of a card that was left out.
ARG CAPABILITIES
ENV DFLASH_KIT_CAPABILITIES=${CAPABILITIES}
LABEL org.opencontainers.image.title="dflash-kit engine" \
      org.opencontainers.image.description="Patched SGLang with DFlash speculative decoding" \
      org.opencontainers.image.version="${RELEASE}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0" \
      io.dflash-kit.release="${RELEASE}" \
      io.dflash-kit.variant="${VARIANT}" \
      io.dflash-kit.patches="${PATCHES}" \
      io.dflash-kit.tree="${TREE}"
