"""The inside of an engine whose DFlash runs through worker v1, in step with the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.scheduler_output_processor_mixin import SchedulerOutputProcessorMixin
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor import forward_batch_info, pool_configurator
from sglang.srt.model_executor.cuda_graph_runner import DecodeInputBuffers
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.server_args import ServerArgs
from sglang.srt.speculative import dflash_info, dflash_utils, dflash_worker

sampling_accept = dflash_utils.compute_dflash_sampling_accept_len_and_bonus


def draft_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """run(forward, requests=, block_size=) -> the worker after one real draft pass.

    `forward` stands in for the draft runner's: it takes the ForwardBatch that the real
    worker built. The pass ends before the verify input, or where the worker of 0.5.11
    asks for hidden states that it has not. `host_lens` are the lengths that the host
    knows, `attributes` of the worker replace those of `_bare_worker`.
    """

    class Drafted(Exception):
        pass

    def verify_input(**_: Any) -> None:
        raise Drafted

    # A Triton kernel on the unpatched tree, and no part of what is looked at here.
    monkeypatch.setattr(dflash_worker, "assign_req_to_token_pool_func", lambda *_: None)
    monkeypatch.setattr(dflash_worker, "DFlashVerifyInput", verify_input)

    def run(
        forward: Callable[[Any], Any],
        requests: int = 2,
        block_size: int = 8,
        host_lens: tuple[int, ...] | None = None,
        **attributes: Any,
    ) -> Any:
        worker = _bare_worker(dflash_worker.DFlashWorker, forward, requests, block_size)
        vars(worker).update(attributes)
        prefix = torch.full((requests,), 5, dtype=torch.int32)
        batch = SimpleNamespace(
            forward_mode=dflash_worker.ForwardMode.DECODE,
            has_grammar=False,
            sampling_info=None,
            batch_size=lambda: requests,
            seq_lens=prefix,
            seq_lens_cpu=torch.tensor(host_lens or prefix.tolist()),
            req_pool_indices=torch.arange(1, requests + 1),
        )
        state = SimpleNamespace(
            verified_id=torch.zeros(requests, dtype=torch.int64),
            draft_seq_lens=prefix,
            block=None,
        )
        with pytest.raises((Drafted, RuntimeError), match="^$|no hidden states"):
            worker._prepare_for_speculative_decoding(batch, state)
        return worker

    return run


def graph_buffers() -> Callable[..., Any]:
    """make(max_bs=, block_size=) -> the real input buffers of a graph runner, on the CPU."""

    def make(max_bs: int, block_size: int, is_hybrid_swa: bool = False) -> Any:
        return DecodeInputBuffers.create(
            device=torch.device("cpu"),
            max_bs=max_bs,
            max_num_token=max_bs * block_size,
            hidden_size=4,
            vocab_size=16,
            dtype=torch.float32,
            dp_size=1,
            pp_size=1,
            is_encoder_decoder=False,
            require_mlp_tp_gather=False,
            seq_len_fill_value=1,
            encoder_len_fill_value=0,
            num_tokens_per_bs=block_size,
            cache_loc_dtype=torch.int64,
            enable_mamba_track=False,
            is_hybrid_swa=is_hybrid_swa,
        )

    return make


def first_steps() -> Callable[..., Any]:
    """run(verify_in_graph=) -> worker, batch and turns after one real decode step.

    The step of two requests goes over a target and a draft that only note their turn.
    """

    class Verify(dflash_info.DFlashVerifyInput):
        def __init__(self) -> None:
            self.positions = torch.zeros(2)

        def accept(self, *_: Any) -> Any:
            return torch.tensor([0, 1]), torch.tensor([7, 8])

        def commit(self, *_: Any) -> list[int]:
            return [0, 1]

    def run(verify_in_graph: bool = True) -> Any:
        turns: list[str] = []
        output = SimpleNamespace(
            logits_output=SimpleNamespace(hidden_states=torch.zeros(1)),
            can_run_cuda_graph=verify_in_graph,
        )
        worker: Any = object.__new__(dflash_worker.DFlashWorker)
        vars(worker).update(
            use_compact_draft_cache=False,
            page_size=1,
            tp_rank=0,
            verify_passes={"cuda_graph": 0, "eager": 0},
            _logged_first_verify=True,
            _draft_can_run_graph=True,
            target_worker=SimpleNamespace(
                forward_batch_generation=lambda *_, **__: output,
                model_runner=SimpleNamespace(attn_backend=None),
            ),
            _prepare_for_speculative_decoding=lambda *_: None,
            _append_hidden=lambda *_: turns.append("append"),
            _can_draft_ahead=lambda _: True,
            _draft_block=lambda *_: turns.append("draft") or "block",
            _fetch_rows=lambda *_: lambda: turns.append("wait"),
        )
        batch = SimpleNamespace(
            spec_info=dflash_info.DFlashDraftInput(
                verified_id=torch.tensor([1, 2]),
                target_hidden=torch.zeros(0, 4),
                ctx_lens=torch.zeros(2, dtype=torch.int32),
                draft_seq_lens=torch.tensor([1, 2], dtype=torch.int32),
            ),
            forward_mode=dflash_worker.ForwardMode.DECODE,
            is_extend_in_batch=False,
            seq_lens=torch.tensor([5, 6]),
            out_cache_loc=None,
            get_model_worker_batch=lambda: SimpleNamespace(
                forward_mode=dflash_worker.ForwardMode.TARGET_VERIFY, spec_info=Verify()
            ),
        )
        worker.forward_batch_generation(batch)
        return SimpleNamespace(worker=worker, batch=batch, turns=turns)

    return run


def _bare_worker(cls: type, forward: Callable[[Any], Any], requests: int, block_size: int) -> Any:
    """A DFlashWorker as __init__ leaves it, less the models and the KV pools."""
    allocator = SimpleNamespace(
        backup_state=lambda: None,
        restore_state=lambda state: None,
        alloc=lambda size: torch.arange(1, size + 1),
    )
    model = SimpleNamespace(
        get_input_embeddings=lambda: torch.nn.Embedding(16, 4),
        lm_head=SimpleNamespace(weight=None, shard_indices=None),
    )
    worker: Any = object.__new__(cls)
    vars(worker).update(
        server_args=SimpleNamespace(),
        device="cpu",
        page_size=1,
        block_size=block_size,
        tp_rank=0,
        draft_passes={"cuda_graph": 0, "eager": 0},
        use_compact_draft_cache=False,
        _block_needs_slots=True,
        _padding_slots=torch.zeros(requests * block_size, dtype=torch.int64),
        draft_model=SimpleNamespace(
            block_tokens=torch.zeros(requests * block_size, dtype=torch.int64)
        ),
        _mask_token_id=3,
        _draft_block_ids_buf=None,
        _draft_block_spec_info=None,
        _block_pos_offsets=torch.arange(block_size),
        _append_target_hidden_to_draft_kv=lambda batch, state: None,
        target_worker=SimpleNamespace(model_runner=SimpleNamespace(model=model)),
        draft_model_runner=SimpleNamespace(
            forward=forward,
            token_to_kv_pool_allocator=allocator,
            req_to_token_pool=SimpleNamespace(req_to_token=torch.zeros(requests + 1, 64)),
            token_to_kv_pool=None,
            attn_backend=None,
        ),
    )
    return worker


def draft_batch(monkeypatch: pytest.MonkeyPatch, requests: int, block_size: int) -> Any:
    """The ForwardBatch of one real draft pass."""
    built: list[Any] = []

    def forward(batch: Any) -> Any:
        built.append(batch)
        return SimpleNamespace(
            logits_output=SimpleNamespace(hidden_states=None), can_run_graph=True
        )

    draft_pass(monkeypatch)(forward, requests=requests, block_size=block_size)
    return built[0]


def decode_step(verify_in_graph: bool = True) -> tuple[Any, None]:
    """The worker after one real decode step of two requests."""
    return first_steps()(verify_in_graph=verify_in_graph).worker, None


def count_draft_pass(
    monkeypatch: pytest.MonkeyPatch, in_graph: bool
) -> tuple[dict[str, int], bool | None]:
    """The worker's counters after one draft pass, and what is handed on to the metrics."""
    output = SimpleNamespace(
        logits_output=SimpleNamespace(hidden_states=None), can_run_graph=in_graph
    )
    worker = draft_pass(monkeypatch)(lambda batch: output)
    return worker.draft_passes, worker._draft_can_run_graph


def process_decode(collector: Any, result: GenerationBatchResult, stop: Callable[[], None]) -> None:
    """The real processing of a decode result, up to `stop`, its first step after the metrics."""
    scheduler: Any = SimpleNamespace(
        num_generated_tokens=0,
        enable_metrics=True,
        metrics_collector=collector,
        update_spec_metrics=lambda *_: None,
        token_to_kv_pool_allocator=SimpleNamespace(free_group_begin=stop),
    )
    batch: Any = SimpleNamespace(
        reqs=[],
        batch_size=lambda: 0,
        is_spec_v2=False,
        spec_algorithm=SimpleNamespace(is_none=lambda: False),
    )
    SchedulerOutputProcessorMixin.process_batch_result_decode(scheduler, batch, result)


def scheduler(**counters: Any) -> Any:
    """What the real methods about internal states ask of a scheduler.

    `counters` are those of a DFlash worker; without them the scheduler has none.
    """
    cache, dflash = SimpleNamespace(mem_usage=0.0), bool(counters)
    return SimpleNamespace(
        last_gen_throughput=0.0,
        max_total_num_tokens=0,
        max_running_requests=8,
        pp_size=1,
        spec_total_num_forward_ct=0,
        spec_total_num_accepted_tokens=0,
        spec_algorithm=SimpleNamespace(is_none=lambda: not dflash, is_dflash=lambda: dflash),
        draft_worker=SimpleNamespace(**counters),
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: cache),
        tp_worker=SimpleNamespace(
            model_runner=SimpleNamespace(weight_load_mem_usage=0.0, graph_mem_usage=0.0)
        ),
    )


def internal_state(**counters: Any) -> dict[str, Any]:
    answer = Scheduler.get_internal_state(scheduler(**counters), None)
    return dict(answer.internal_state)


def manager(arguments: ServerArgs, **more: Any) -> Any:
    """A tokenizer manager as far as server information and dumps ask it."""

    async def states() -> list[dict[str, Any]]:
        return []

    return SimpleNamespace(server_args=arguments, get_internal_state=states, **more)


def expert_ranks(monkeypatch: pytest.MonkeyPatch, ranks: int) -> None:
    """This process is one of so many expert-parallel ranks."""
    monkeypatch.setattr(forward_batch_info, "get_moe_expert_parallel_world_size", lambda: ranks)
    monkeypatch.setattr(forward_batch_info, "get_attention_tp_rank", lambda: 0)
    monkeypatch.setattr(forward_batch_info, "get_attention_tp_size", lambda: 1)


def count_after(
    batch: Any, requests: int, block_size: int, expert_parallel: bool, gathered: bool, stale: int
) -> int:
    """The count in the real buffers of a graph after `batch` has entered them."""
    largest = 4
    buffers = graph_buffers()(max_bs=largest, block_size=block_size)
    buffers.num_token_non_padded.fill_(stale)
    buffers.populate_from_forward_batch(
        forward_batch=batch,
        raw_bs=requests,
        raw_num_token=requests * block_size,
        bs=largest,
        seq_len_fill_value=1,
        require_gathered_buffer=gathered,
        num_tokens_per_bs=block_size,
        nsa_enable_prefill_cp=False,
        enable_num_token_non_padded_flag=expert_parallel,
    )
    return int(buffers.num_token_non_padded)


def pool_owner(
    monkeypatch: pytest.MonkeyPatch, draft: Any, ranks: int, flag: str, dtype: torch.dtype
) -> Any:
    """A target of 61 MLA layers as the sizing of its pool asks for it."""
    monkeypatch.setattr(pool_configurator, "get_attention_tp_size", lambda: ranks)
    return SimpleNamespace(
        spec_algorithm=SimpleNamespace(is_dflash=lambda: True),
        is_draft_worker=False,
        server_args=SimpleNamespace(kv_cache_dtype=flag, swa_full_tokens_ratio=0.5),
        kv_cache_dtype=dtype,
        use_mla_backend=True,
        mambaish_config=None,
        num_effective_layers=61,
        model_config=SimpleNamespace(
            kv_lora_rank=512,
            qk_rope_head_dim=64,
            hf_config=SimpleNamespace(architectures=["DeepseekV3ForCausalLM"]),
        ),
        dflash_draft_model_config=draft,
        dflash_draft_num_layers=6,  # upstream's way to know the draft
    )


def without_dflash(owner: Any) -> None:
    owner.spec_algorithm = SimpleNamespace(is_dflash=lambda: False)


def graph_arguments(sizes: list[int], disabled: bool = False) -> dict[str, Any]:
    """Arguments with graphs of `sizes`, as they are when speculative decoding looks at them."""
    return {"cuda_graph_bs": sizes, "disable_cuda_graph": disabled}


def handle_speculative_decoding(args: ServerArgs) -> None:
    args._handle_speculative_decoding()


def start_target(target: Any, args: ServerArgs) -> None:
    """The target's start, up to where it has read the draft's configuration."""

    def adjusted(self: ModelRunner) -> None:
        raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelRunner, "model_specific_adjustment", adjusted)
        ModelRunner(
            model_config=target,
            mem_fraction_static=0.5,
            gpu_id=0,
            tp_rank=0,
            tp_size=1,
            moe_ep_rank=0,
            moe_ep_size=1,
            pp_rank=0,
            pp_size=1,
            nccl_port=0,
            server_args=args,
        )


def verify_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    layer: Any,
    table: Any,
    pool: Any,
    **batch: Any,
) -> torch.Tensor:
    """torch_native's answer for a verify block."""
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

    built = ForwardBatch(
        forward_mode=ForwardMode.TARGET_VERIFY,
        req_to_token_pool=table,
        token_to_kv_pool=pool,
        **batch,
    )
    backend = TorchNativeAttnBackend(SimpleNamespace(device="cpu"))
    result: torch.Tensor = backend.forward_extend(queries, keys, values, layer, built)
    return result


def draft_backend(monkeypatch: pytest.MonkeyPatch, _: Path, backend: str) -> str:
    """The attention backend of a draft on a CPU whose target has `backend`."""
    made: list[Any] = []

    def stop(server_args: Any, **_: Any) -> None:
        made.append(server_args)
        raise InterruptedError

    monkeypatch.setattr(dflash_worker, "TpModelWorker", stop)
    monkeypatch.setattr(dflash_worker, "get_global_server_args", lambda: None)
    arguments = SimpleNamespace(
        page_size=1,
        disable_cuda_graph=True,
        speculative_dflash_draft_window_size=None,
        speculative_draft_attention_backend=None,
        get_attention_backends=lambda: (backend, backend),
    )
    target = SimpleNamespace(
        device="cpu",
        get_memory_pool=lambda: (None, None),
        model_runner=SimpleNamespace(
            model_config=SimpleNamespace(context_len=64), memory_pool_config=None
        ),
    )
    with pytest.raises(InterruptedError):
        dflash_worker.DFlashWorker(
            server_args=arguments,
            gpu_id=0,
            tp_rank=0,
            dp_rank=None,
            moe_ep_rank=0,
            attn_cp_rank=0,
            moe_dp_rank=0,
            nccl_port=0,
            target_worker=target,
        )
    return str(made[0].attention_backend)


def watch(made: Any) -> None:
    """What the watchdog of a stopping engine asks besides: nothing."""


def routes(app: Any) -> Iterator[Any]:
    """The HTTP routes of the engine's application."""
    yield from app.routes

